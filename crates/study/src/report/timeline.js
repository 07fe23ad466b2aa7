// A timeline on a page: a row for each rank, calls as bars, messages as lines. Wheel or buttons: nearer, further; drag:
// left, right; a bar under the pointer says what it is. `data` has times in ns: {names, calls: [[rank, name, begin, end,
// waited]], messages: [[from, to, begin, end, bytes]], live, colours}. In a live run what lies between calls is computing,
// and a call is drawn in two parts: its work, and what it waited. In a replay nobody knows how much of an operation is
// waiting.
"use strict";
function timeline(place, data) {
  const colours = data.colours, live = data.live;
  const computes = data.names.map(name => name.startsWith("compute"));
  const kinds = live ? ["computing", "MPI software", "waiting"] : ["computing", "MPI software"];
  const said_of = { "MPI software": live ? "MPI software" : "in MPI, at work or waiting" };
  const ranks = [...new Set(data.calls.map(call => call[0]))].sort((a, b) => a - b);
  const rowOf = new Map(ranks.map((rank, row) => [rank, row]));
  const ends = [...data.calls.map(call => call[3]), ...data.messages.map(message => message[3])];
  const last = ends.reduce((a, b) => Math.max(a, b), 1);
  const first = data.calls.reduce((a, call) => Math.min(a, call[2]), last);
  const height = Math.max(6, Math.min(24, Math.floor(900 / Math.max(1, ranks.length))));
  const top = 18, left = 56;
  const canvas = document.createElement("canvas"), said = document.createElement("p"), buttons = document.createElement("p");
  canvas.style.cssText = "width:100%;display:block;touch-action:pan-y;cursor:grab";
  said.className = "origin";
  said.style.minHeight = "1.5em";
  let from = first, to = last;
  const page = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim() || "#888";
  function unit(ns) {
    const found = [[1e9, "s"], [1e6, "ms"], [1e3, "\u00b5s"]].find(([size]) => Math.abs(ns) >= size) || [1, "ns"];
    return [found[0], found[1]];
  }
  function show(ns, digits = 4) {
    const [size, name] = unit(ns);
    return `${Number((ns / size).toPrecision(digits))} ${name}`;
  }
  function draw() {
    const scale = window.devicePixelRatio || 1, width = canvas.clientWidth || 600;
    const tall = top + ranks.length * height + 4;
    canvas.width = width * scale;
    canvas.height = tall * scale;
    canvas.style.height = `${tall}px`;
    const pen = canvas.getContext("2d");
    pen.scale(scale, scale);
    pen.font = "11px system-ui,sans-serif";
    pen.fillStyle = page("--paper");
    pen.fillRect(0, 0, width, tall);
    const x = time => left + (time - from) / (to - from) * (width - left);
    const [size, name] = unit(to);
    const rough = (to - from) / Math.max(2, width / 110), power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map(by => by * power).find(by => by >= rough);
    const digits = Math.max(0, Math.min(9, Math.ceil(-Math.log10(step / size))));
    for (let time = Math.ceil(from / step) * step; time <= to; time += step) {
      pen.fillStyle = page("--line");
      pen.fillRect(x(time), top - 4, 1, tall);
      pen.fillStyle = page("--soft");
      if (x(time) < width - 58) pen.fillText(`${(time / size).toFixed(digits)} ${name}`, x(time) + 2, 10);
    }
    pen.fillStyle = page("--soft");
    const every = Math.ceil(12 / height);
    ranks.forEach((rank, row) => row % every === 0 && pen.fillText(`rank ${rank}`, 2, top + row * height + Math.min(height, 11)));
    pen.save();
    pen.beginPath();
    pen.rect(left, 0, width - left, tall);
    pen.clip();
    const bar = (rank, role, begin, end) => {
      if (end < from || begin > to) return;
      pen.fillStyle = colours[role];
      pen.fillRect(x(begin), top + rowOf.get(rank) * height, Math.max(0.7, x(end) - x(begin)), height - (height > 8 ? 2 : 1));
    };
    const done = new Map();
    for (const [rank, call, begin, end, waited] of data.calls) {
      if (live && (done.get(rank) || first) < begin) bar(rank, "computing", done.get(rank) || first, begin);
      done.set(rank, Math.max(end, done.get(rank) || first));
      if (computes[call]) {
        bar(rank, "computing", begin, end);
        continue;
      }
      if (end - waited > begin) bar(rank, "MPI software", begin, end - waited);
      if (waited > 0) bar(rank, "waiting", end - waited, end);
    }
    const seen = data.messages.filter(([, , begin, end]) => end >= from && begin <= to);
    if (seen.length <= 3000) {
      pen.strokeStyle = colours.message;
      pen.globalAlpha = 0.7;
      pen.lineWidth = 0.8;
      for (const [sender, receiver, begin, end] of seen) {
        if (!rowOf.has(sender) || !rowOf.has(receiver)) continue;
        pen.beginPath();
        pen.moveTo(x(begin), top + (rowOf.get(sender) + 0.5) * height);
        pen.lineTo(x(end), top + (rowOf.get(receiver) + 0.5) * height);
        pen.stroke();
      }
      pen.globalAlpha = 1;
    }
    pen.restore();
  }
  function zoom(factor, around) {
    const length = Math.min(last - first, Math.max(10, (to - from) * factor));
    const share = (around - from) / (to - from);
    from = Math.max(first, Math.min(last - length, around - share * length));
    to = from + length;
    draw();
  }
  function timeAt(event) {
    const box = canvas.getBoundingClientRect();
    return from + (event.clientX - box.left - left) / (box.width - left) * (to - from);
  }
  canvas.addEventListener("wheel", event => {
    event.preventDefault();
    zoom(event.deltaY > 0 ? 1.25 : 0.8, Math.max(from, timeAt(event)));
  }, { passive: false });
  let held = null;
  canvas.addEventListener("pointerdown", event => { held = [event.clientX, from]; canvas.setPointerCapture(event.pointerId); });
  canvas.addEventListener("pointerup", () => { held = null; });
  canvas.addEventListener("pointermove", event => {
    if (held) {
      const length = to - from, moved = (held[0] - event.clientX) / (canvas.clientWidth - left) * length;
      from = Math.max(first, Math.min(last - length, held[1] + moved));
      to = from + length;
      draw();
      return;
    }
    const time = timeAt(event), row = Math.floor((event.clientY - canvas.getBoundingClientRect().top - top) / height);
    const near = (to - from) / canvas.clientWidth;
    const call = data.calls.find(([rank, , begin, end]) => rowOf.get(rank) === row && begin - near <= time && time <= end + near);
    said.textContent = call ? `rank ${call[0]}: ${data.names[call[1]]}, ${show(call[3] - call[2])} from ${show(call[2], 7)} on`
      + (call[4] > 0 ? `, waiting ${show(call[4])}` : "") : "";
  });
  const button = (text, name, act) => {
    const made = document.createElement("button");
    made.textContent = text;
    made.title = name;
    made.setAttribute("aria-label", name);
    made.addEventListener("click", act);
    buttons.append(made, " ");
  };
  button("+", "nearer", () => zoom(0.5, (from + to) / 2));
  button("\u2212", "further", () => zoom(2, (from + to) / 2));
  button("all", "the whole timeline", () => { [from, to] = [first, last]; draw(); });
  for (const name of [...kinds, "message"]) {
    const mark = document.createElement("span"), key = document.createElement("span");
    mark.className = "name";
    key.className = "key";
    key.style.background = colours[name];
    mark.append(key, said_of[name] || name);
    buttons.append(mark);
  }
  buttons.className = "legend";
  place.append(buttons, canvas, said);
  window.addEventListener("resize", draw);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  draw();
}
