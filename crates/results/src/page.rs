use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

/// The style of HTML pages with tables and pictures. A table that is wider than the window is moved, not cut.
const STYLE: &str = "body{font:15px/1.45 system-ui,sans-serif;max-width:800px;margin:2em auto;padding:0 1em;color:#222}\
h1{font-size:1.5em}h2{font-size:1.15em;margin-bottom:.2em}h1,p{overflow-wrap:anywhere}p{margin:.2em 0 .6em;color:#555}svg{width:100%;height:auto}\
table{border-collapse:collapse;display:block;max-width:100%;overflow-x:auto}.origin{font-size:.85em}\
td,th{padding:.2em .9em .2em 0;text-align:right;border-bottom:1px solid #eee}td:first-child,th:first-child{text-align:left}section{margin-top:2em}\
pre{overflow-x:auto;background:#f6f6f6;padding:.6em;font-size:.85em}summary{cursor:pointer;padding:.3em 0}";

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
            "{head}<desc>{}</desc>\n<text x=\"{}\" y=\"{}\" font-size=\"9\" fill=\"#777\" text-anchor=\"end\">{}</text>\n</svg>\n",
            escape(&text),
            width - 6.0,
            height - 3.0,
            escape(&short)
        )
    }

    /// An HTML page that says so below its title.
    pub fn page(&self, title: &str, body: &str) -> String {
        let (title, origin) = (escape(title), escape(&self.to_string()));
        format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
             <title>{title}</title><style>{STYLE}</style></head><body>\n<h1>{title}</h1>\n<p class=\"origin\">{origin}</p>\n{body}</body></html>\n"
        )
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = civil(self.date / 86_400);
        write!(f, "narrows {}, {year}-{month:02}-{day:02}", env!("CARGO_PKG_VERSION"))?;
        self.machine.iter().try_for_each(|machine| write!(f, ", machine {machine}"))?;
        self.seed.iter().try_for_each(|seed| write!(f, ", seed {seed}"))?;
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
        assert!(origin.page("a < b", "").contains(&format!("<h1>a &lt; b</h1>\n<p class=\"origin\">{text}</p>")));
        assert_eq!(["a", "a b", "it's", ""].map(quoted), ["a", "'a b'", "'it'\\''s'", "''"]);
    }
}
