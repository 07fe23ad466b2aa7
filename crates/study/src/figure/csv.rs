//! Tables of text (RFC 4180), with the line of each row.

use crate::StudyError;

/// A row.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Its first line in the file, from 1.
    pub line: usize,
    /// Its fields.
    pub fields: Vec<String>,
}

/// All rows, the names of the columns too.
///
/// # Errors
/// The line, and what is wrong there.
pub fn parse(text: &str) -> Result<Vec<Row>, (usize, Box<StudyError>)> {
    let mut rows = Vec::new();
    let mut characters = text.chars().peekable();
    let mut line = 1;
    while characters.peek().is_some() {
        let first = line;
        let mut fields = Vec::new();
        loop {
            let mut field = String::new();
            if characters.next_if_eq(&'"').is_some() {
                loop {
                    match characters.next() {
                        None => {
                            let error = StudyError::contradiction("a field begins with \" and does not end with one");
                            return Err((first, Box::new(error)));
                        }
                        Some('"') if characters.next_if_eq(&'"').is_none() => break,
                        Some(character) => {
                            line += usize::from(character == '\n');
                            field.push(character);
                        }
                    }
                }
                if let Some(other) = characters.peek().filter(|next| !matches!(next, ',' | '\n' | '\r')) {
                    let found = format!("'{other}' behind a field in quotes");
                    return Err((line, Box::new(StudyError::expected(found, "a comma or the end of the line"))));
                }
            } else {
                while let Some(character) = characters.next_if(|next| !matches!(next, ',' | '\n' | '\r')) {
                    field.push(character);
                }
            }
            fields.push(field);
            if characters.next_if_eq(&',').is_none() {
                break;
            }
        }
        let _ = characters.next_if_eq(&'\r');
        let _ = characters.next_if_eq(&'\n');
        line += 1;
        if fields != [""] {
            rows.push(Row { line: first, fields });
        }
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_and_their_lines() {
        let rows = parse("a,b\n\"x, \"\"y\"\"\nz\",2\n\n3,\n").unwrap();
        let found: Vec<(usize, Vec<&str>)> = rows.iter().map(|row| (row.line, row.fields.iter().map(String::as_str).collect())).collect();
        assert_eq!(found, [(1, vec!["a", "b"]), (2, vec!["x, \"y\"\nz", "2"]), (5, vec!["3", ""])]);
    }

    #[test]
    fn mistakes_have_a_line() {
        assert_eq!(parse("a\n\"b\n").unwrap_err().0, 2);
        assert_eq!(
            parse("a\n\"b\"c\n").map_err(|(line, error)| (line, error.to_string())).unwrap_err(),
            (2, String::from("'c' behind a field in quotes: expected a comma or the end of the line"))
        );
    }
}
