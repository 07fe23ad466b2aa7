use std::fmt::{self, Write};
use std::time::{SystemTime, UNIX_EPOCH};

/// The style of all pages, light and dark. Pictures keep their colours; what is white, grey or black in them takes the
/// page's. A table that is wider than the window is moved, not cut.
const STYLE: &str = include_str!("page.css");

/// Text inside HTML and SVG.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Where a result comes from: enough to make it again.
#[derive(Clone, Debug)]
pub struct Origin {
    command: String,
    machine: Option<String>,
    seed: Option<u64>,
    /// Seconds since 1970.
    date: u64,
}

impl Origin {
    /// This process, now; machine and seed, where there are.
    pub fn here(machine: Option<&str>, seed: Option<u64>) -> Origin {
        let mut words = std::env::args();
        let program = words.next().unwrap_or_default();
        let name = program.rsplit('/').next().unwrap_or_default().to_owned();
        let command = std::iter::once(name).chain(words.map(|word| quoted(&word))).collect::<Vec<_>>().join(" ");
        let date = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        Origin { command, machine: machine.map(str::to_owned), seed, date }
    }

    /// The picture with a line at its foot that says so.
    pub fn sign(&self, svg: &str) -> String {
        let text = self.to_string();
        let Some((width, height)) = size(svg) else { return svg.to_owned() };
        let Some((head, _)) = svg.rsplit_once("</svg>") else { return svg.to_owned() };
        // Half an em per character, about.
        let room = ((width - 12.0) / 4.6) as usize;
        let short = match text.chars().count() > room {
            true => text.chars().take(room.saturating_sub(3)).collect::<String>() + "...",
            false => text.clone(),
        };
        format!(
            "{head}<desc>{}</desc>\n<text class=\"origin\" x=\"{}\" y=\"{}\" font-size=\"9\" fill=\"#777\" text-anchor=\"end\">{}</text>\n</svg>\n",
            escape(&text),
            width - 6.0,
            height - 3.0,
            escape(&short)
        )
    }

    /// The same, made by this command: of what runs inside another program.
    pub fn command(self, command: &str) -> Origin {
        Origin { command: command.to_owned(), ..self }
    }

    /// What, when, on what: without the command.
    fn about(&self) -> String {
        let (year, month, day) = civil(self.date / 86_400);
        let mut text = format!("narrows {}, {year}-{month:02}-{day:02}", env!("CARGO_PKG_VERSION"));
        text.extend(self.machine.iter().map(|machine| format!(", machine {machine}")));
        text.extend(self.seed.iter().map(|seed| format!(", seed {seed}")));
        text
    }
}

/// An HTML page with everything in it: nothing is loaded from elsewhere. Its parts stand in the order in which they
/// were added.
#[derive(Clone, Debug, Default)]
pub struct Page(String);

impl Page {
    /// A heading, with what is below it.
    pub fn heading(&mut self, text: &str) {
        let _ = writeln!(self.0, "<h2>{}</h2>", escape(text));
    }

    /// A paragraph.
    pub fn note(&mut self, text: &str) {
        if !text.is_empty() {
            let _ = writeln!(self.0, "<p>{}</p>", escape(text));
        }
    }

    /// What has gone wrong, and what to do.
    pub fn alarm(&mut self, text: &str) {
        let _ = writeln!(self.0, "<p class=\"alarm\">{}</p>", escape(text));
    }

    /// Names and values, the most important ones first.
    pub fn facts(&mut self, facts: &[(String, String)]) {
        let rows = facts.iter().map(|(name, value)| format!("<div><dt>{}</dt><dd>{}</dd></div>", escape(name), escape(value)));
        let _ = writeln!(self.0, "<dl>{}</dl>", rows.collect::<String>());
    }

    /// A table; `texts` of its first columns are texts, the others numbers.
    pub fn table(&mut self, head: &[&str], rows: &[Vec<String>], texts: usize) {
        let row = |cells: &mut dyn Iterator<Item = &str>, tag: &str| {
            let cell = |(column, text): (usize, &str)| {
                let class = if column < texts { " class=\"text\"" } else { "" };
                format!("<{tag}{class}>{}</{tag}>", escape(text))
            };
            format!("<tr>{}</tr>", cells.enumerate().map(cell).collect::<String>())
        };
        let head = row(&mut head.iter().copied(), "th");
        let body: String = rows.iter().map(|cells| row(&mut cells.iter().map(String::as_str), "td") + "\n").collect();
        let _ = writeln!(self.0, "<div class=\"wide\"><table><thead>{head}</thead><tbody>{body}</tbody></table></div>");
    }

    /// Pictures side by side, where there is room: SVG and what it shows.
    pub fn pictures(&mut self, pictures: &[(&str, &str)]) {
        let figures = pictures.iter().enumerate().map(|(index, (caption, svg))| {
            // Names inside of pictures must not meet.
            let svg = svg.replace("id=\"", &format!("id=\"p{index}-")).replace("url(#", &format!("url(#p{index}-"));
            format!("<figure>{svg}<figcaption>{}</figcaption></figure>", escape(caption))
        });
        let _ = writeln!(self.0, "<div class=\"pictures\">{}</div>", figures.collect::<String>());
    }

    /// A command to copy.
    pub fn command(&mut self, command: &str) {
        let _ = writeln!(self.0, "<pre class=\"command\">{}</pre>", escape(command));
    }

    /// A text that opens by a click.
    pub fn details(&mut self, summary: &str, text: &str) {
        let _ = writeln!(self.0, "<details><summary>{}</summary><pre>{}</pre></details>", escape(summary), escape(text));
    }

    /// Other parts, behind a click.
    pub fn folded(&mut self, summary: &str, parts: &Page) {
        let _ = writeln!(self.0, "<details><summary>{}</summary>{}</details>", escape(summary), parts.0);
    }

    /// A part that is HTML.
    pub fn html(&mut self, html: &str) {
        self.0 += html;
    }

    /// The page, with where it comes from below its title and the command to repeat it at its end.
    pub fn finish(&self, title: &str, origin: &Origin) -> String {
        let (title, about, command) = (escape(title), escape(&origin.about()), escape(&origin.command));
        let repeat = match command.is_empty() {
            true => String::new(),
            false => format!("<h2>The same again</h2>\n<pre class=\"command\">{command}</pre>\n"),
        };
        format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" \
             content=\"width=device-width,initial-scale=1\"><meta name=\"color-scheme\" content=\"light dark\"><title>{title}</title>\
             <style>{STYLE}</style></head><body>\n<h1>{title}</h1>\n<p class=\"origin\">{about}</p>\n{}{repeat}</body></html>\n",
            self.0
        )
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.about())?;
        if self.command.is_empty() {
            return Ok(());
        }
        write!(f, ": {}", self.command)
    }
}

/// A word as a shell wants it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}

/// Width and height of a picture.
fn size(svg: &str) -> Option<(f64, f64)> {
    let (_, rest) = svg.split_once("viewBox=\"0 0 ")?;
    let (numbers, _) = rest.split_once('"')?;
    let (width, height) = numbers.split_once(' ')?;
    Some((width.parse().ok()?, height.parse().ok()?))
}

/// Year, month and day of a day since 1970 (Hinnant, "chrono-compatible low-level date algorithms").
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (day, month) = (day - (153 * month + 2) / 5 + 1, if month < 10 { month + 3 } else { month - 9 });
    (year + era * 400 + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_escaped_and_names_in_pictures_do_not_meet() {
        let mut page = Page::default();
        page.table(&["<a>", "b"], &[vec![String::from("x & y"), String::from("1")]], 1);
        page.pictures(&[("one", "<svg><marker id=\"m\"/><path marker-end=\"url(#m)\"/></svg>"), ("two", "<svg><marker id=\"m\"/></svg>")]);
        let text = page.finish("t", &Origin::here(None, None));
        assert!(
            text.contains("<th class=\"text\">&lt;a&gt;</th><th>b</th>") && text.contains("<td class=\"text\">x &amp; y</td><td>1</td>")
        );
        assert!(text.contains("id=\"p0-m\"") && text.contains("url(#p0-m)") && text.contains("id=\"p1-m\""), "{text}");
        // Nothing is loaded.
        assert!(!text.contains("http") && !text.contains("src="), "{text}");
    }

    #[test]
    fn days() {
        assert_eq!([0, 59, 11_016, 20_514].map(civil), [(1970, 1, 1), (1970, 3, 1), (2000, 2, 29), (2026, 3, 2)]);
    }

    #[test]
    fn what_one_needs_to_make_it_again() {
        let origin = Origin {
            command: String::from("narrows replay 'a b.vef'"),
            machine: Some(String::from("bxi-v2")),
            seed: Some(7),
            date: 951_782_400,
        };
        let text = format!("narrows {}, 2000-02-29, machine bxi-v2, seed 7: narrows replay 'a b.vef'", env!("CARGO_PKG_VERSION"));
        assert_eq!(origin.to_string(), text);
        let svg = origin.sign("<svg viewBox=\"0 0 720 440\">\n</svg>\n");
        assert!(svg.contains(&format!(">{text}</text>\n</svg>\n")) && svg.contains("y=\"437\""), "{svg}");
        let page = Page::default().finish("a < b", &origin);
        let (about, command) = text.split_once(": ").unwrap();
        assert!(page.contains(&format!("<h1>a &lt; b</h1>\n<p class=\"origin\">{about}</p>")), "{page}");
        assert!(page.contains(&format!("<h2>The same again</h2>\n<pre class=\"command\">{command}</pre>")), "{page}");
        assert!(!Page::default().finish("a", &origin.command("")).contains("The same again"));
        assert_eq!(["a", "a b", "it's", ""].map(quoted), ["a", "'a b'", "'it'\\''s'", "''"]);
    }
}
