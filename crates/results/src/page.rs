/// The style of HTML pages with tables and pictures.
pub const STYLE: &str = "body{font:15px/1.45 system-ui,sans-serif;max-width:800px;margin:2em auto;padding:0 1em;color:#222}\
h1{font-size:1.5em}h2{font-size:1.15em;margin-bottom:.2em}p{margin:.2em 0 .6em;color:#555}svg{width:100%;height:auto}\
svg text{font-size:12px;fill:#444}.grid{stroke:#ddd}.frame{stroke:#999}table{border-collapse:collapse}\
td,th{padding:.2em .9em .2em 0;text-align:right;border-bottom:1px solid #eee}td:first-child,th:first-child{text-align:left}section{margin-top:2em}";

/// Text inside HTML and SVG.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
