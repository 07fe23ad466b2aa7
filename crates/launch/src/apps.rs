//! Jobs of several programs, as all launchers have them: `./a x : -n 2 ./b y`, or a line each in a file. Beside the
//! number of ranks may stand the processors that they are on: `: -n 2 --on dpu -- ./b y`.

use crate::LaunchError;
use narrows_mpilib::App;
use std::path::Path;

/// The programs that words name: the first one on `ranks` ranks and on processors `on`, each further one behind `: -n
/// N` (or `-np`), with `--on NAMES` and `--` behind that, or not. A `:` in front of anything else is an argument.
///
/// # Errors
/// [`LaunchError::Apps`].
pub fn apps(ranks: u32, on: &str, words: &[String]) -> Result<Vec<App>, LaunchError> {
    let is_count = |word: Option<&String>| word.is_some_and(|word| COUNTS.contains(&word.as_str()));
    let starts = (0..words.len()).filter(|&at| words[at] == ":" && is_count(words.get(at + 1)));
    let mut apps = Vec::new();
    let (mut begin, mut count) = (0, ranks);
    for end in starts.chain([words.len()]) {
        // Those of the one before begin behind its count.
        let own = words.get(begin..end).unwrap_or_default();
        // What is in front of the first one's `--` was an option.
        let (own, on) = if begin == 0 { (own, on.to_owned()) } else { processors(own)? };
        let Some((program, arguments)) = own.split_first() else {
            return Err(LaunchError::Apps(format!("{}: expected a program behind -n {count}", words.join(" "))));
        };
        apps.push(App { ranks: count, program: program.clone(), arguments: arguments.to_vec(), on });
        if let Some(next) = words.get(end + 2) {
            count = number(next)?;
        } else if end < words.len() {
            return Err(LaunchError::Apps(format!("{}: expected -n RANKS PROGRAM behind the last :", words.join(" "))));
        }
        begin = end + 3;
    }
    Ok(apps)
}

const NO_PROGRAM: &str = "expected -n RANKS PROGRAM, with its arguments; other options but --on belong on the command line";

/// What stands in front of a number of ranks.
const COUNTS: [&str; 5] = ["-n", "-np", "--np", "-c", "--n"];

/// The words behind `--on NAMES` and `--`, and the names.
fn processors(words: &[String]) -> Result<(&[String], String), LaunchError> {
    let (rest, on) = match words {
        [option, names, rest @ ..] if option == "--on" => (rest, names.clone()),
        [option] if option == "--on" => return Err(LaunchError::Apps(String::from("--on: expected names of processors behind it"))),
        [option, rest @ ..] if option.starts_with("--on=") => (rest, option["--on=".len()..].to_owned()),
        rest => (rest, String::new()),
    };
    Ok((
        if let [dashes, rest @ ..] = rest
            && dashes == "--"
        {
            rest
        } else {
            rest
        },
        on,
    ))
}

fn number(word: &str) -> Result<u32, LaunchError> {
    let number = word.parse().ok().filter(|number| (1..=1_000_000).contains(number));
    number.ok_or_else(|| LaunchError::Apps(format!("-n {word}: expected a number of ranks, 1 to 1000000")))
}

/// The programs of a file with a line for each: `-n RANKS PROGRAM ARGUMENTS`, as appfiles of Open MPI and configuration
/// files of Hydra have them. Quotes hold words together, `#` begins a comment.
///
/// # Errors
/// [`LaunchError::Apps`], [`LaunchError::Io`].
pub fn appfile(path: &Path) -> Result<Vec<App>, LaunchError> {
    let text = std::fs::read_to_string(path).map_err(|error| LaunchError::Io { path: path.to_owned(), error })?;
    let wrong = |line: usize, what: &str| LaunchError::Apps(format!("{}:{}: {what}", path.display(), line + 1));
    let mut apps = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let words = split(line).map_err(|what| wrong(index, what))?;
        match &words[..] {
            [] => {}
            [option, count, rest @ ..] if COUNTS.contains(&option.as_str()) => {
                let ranks = number(count).map_err(|error| wrong(index, &error.to_string()))?;
                let (own, on) = processors(rest).map_err(|error| wrong(index, &error.to_string()))?;
                let Some((program, arguments)) = own.split_first() else { return Err(wrong(index, NO_PROGRAM)) };
                apps.push(App { ranks, program: program.clone(), arguments: arguments.to_vec(), on });
            }
            _ => return Err(wrong(index, NO_PROGRAM)),
        }
    }
    match apps.is_empty() {
        true => Err(LaunchError::Apps(format!("{}: names no program; expected lines such as -n 4 ./a.out", path.display()))),
        false => Ok(apps),
    }
}

/// The words of a line.
fn split(line: &str) -> Result<Vec<String>, &'static str> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match (letter, quote) {
            ('\\', None | Some('"')) => word.get_or_insert_default().extend(letters.next()),
            (letter, Some(open)) if letter == open => quote = None,
            ('"' | '\'', None) => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            ('#', None) if word.is_none() => break,
            (letter, None) if letter.is_whitespace() => words.extend(word.take()),
            (letter, _) => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    if quote.is_some() { Err("a quotation mark without its second one") } else { Ok(words) }
}

/// The words that [`apps`] reads as these programs, behind the number of ranks and the processors of the first one.
pub fn words(apps: &[App]) -> Vec<String> {
    let mut words = Vec::new();
    for (index, app) in apps.iter().enumerate() {
        if index > 0 {
            words.extend([String::from(":"), String::from("-n"), app.ranks.to_string()]);
            if !app.on.is_empty() {
                words.extend(["--on", &app.on, "--"].map(str::to_owned));
            }
        }
        words.push(app.program.clone());
        words.extend(app.arguments.iter().cloned());
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(ranks: u32, line: &str) -> Result<Vec<App>, String> {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        apps(ranks, "", &words).map_err(|error| error.to_string())
    }

    fn app(ranks: u32, line: &str) -> App {
        let mut words = line.split(' ').map(str::to_owned);
        App { ranks, program: words.next().unwrap(), arguments: words.collect(), on: String::new() }
    }

    #[test]
    fn programs_of_a_line() {
        assert_eq!(of(3, "./a").unwrap(), [app(3, "./a")]);
        assert_eq!(of(2, "./a x : -n 4 ./b y : -np 1 c").unwrap(), [app(2, "./a x"), app(4, "./b y"), app(1, "c")]);
        let on = |ranks, on: &str, line: &str| App { on: on.to_owned(), ..app(ranks, line) };
        assert_eq!(of(2, "./a x : -n 4 --on dpu -- ./b y").unwrap(), [app(2, "./a x"), on(4, "dpu", "./b y")]);
        assert_eq!(
            of(2, "./a : -n 4 --on=host,dpu ./b -- : -np 1 -- c").unwrap(),
            [app(2, "./a"), on(4, "host,dpu", "./b --"), app(1, "c")]
        );
        let first = apps(2, "dpu", &["./a", "--on", "x"].map(str::to_owned)).unwrap();
        assert_eq!(first, [on(2, "dpu", "./a --on x")], "an argument");
        // Arguments of their own.
        assert_eq!(of(2, "./a : b").unwrap(), [app(2, "./a : b")]);
        assert_eq!(of(2, "./a :").unwrap(), [app(2, "./a :")]);
        for (line, expected) in [
            ("./a : -n", "behind the last :"),
            ("./a : -n 0 ./b", "-n 0: expected a number of ranks"),
            ("./a : -n x ./b", "-n x: expected a number of ranks"),
            ("./a : -n 2", "expected a program behind -n 2"),
            ("./a : -n 2 --on", "--on: expected names of processors"),
            ("./a : -n 2 --on dpu --", "expected a program behind -n 2"),
            (": -n 2 ./b", "expected a program behind -n 1"),
        ] {
            let error = of(1, line).unwrap_err();
            assert!(error.contains(expected), "{line}: {error}");
        }
    }

    #[test]
    fn programs_of_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("apps");
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            appfile(&path).map_err(|error| error.to_string())
        };
        let expected = [
            app(1, "./a x"),
            App { ranks: 2, program: "./b".into(), arguments: vec!["a b".into(), "".into(), "c\"d".into()], on: "dpu".into() },
        ];
        assert_eq!(read("# two\n-np 1 ./a x\n\n  -n 2 --on dpu ./b 'a b' \"\" c\\\"d # end\n").unwrap(), expected);
        assert!(read("").unwrap_err().contains("names no program"));
        assert!(read("-n 1 ./a\n./b\n").unwrap_err().contains(":2: expected -n RANKS PROGRAM"));
        assert!(read("-n 1 './a\n").unwrap_err().contains(":1: a quotation mark"));
        assert!(appfile(folder.path()).is_err());
    }

    proptest! {
        #[test]
        fn words_are_read_as_they_were(
            list in prop::collection::vec((1u32..9, "[a-z./]{1,5}", prop::collection::vec("[-a-z:]{0,3}", 0..4), "[a-z]{0,2}"), 1..4)
        ) {
            let list: Vec<App> = list.into_iter().map(|(ranks, program, arguments, on)| App { ranks, program, arguments, on }).collect();
            // Where no argument looks like the beginning of a program.
            prop_assume!(list.iter().all(|app| !app.arguments.iter().any(|word| word == ":")));
            prop_assert_eq!(apps(list[0].ranks, &list[0].on, &words(&list)).unwrap(), list);
        }

        #[test]
        fn any_words_do_no_harm(words in prop::collection::vec("(:|-n|[0-9]{1,2}|[a-z]{1,2})", 1..12)) {
            let _ = apps(1, "", &words);
        }

        #[test]
        fn any_line_does_no_harm(line in ".{0,40}") {
            let _ = split(&line);
        }
    }
}
