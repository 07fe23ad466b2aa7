use crate::TrafficError;
use crate::injection::LEAST_LOAD;

/// More points than this are a slip of the pen.
const MAX_POINTS: usize = 10_000;

/// Loads of a sweep: `A:B:STEP` (both ends included) or a list `A,B,C`.
///
/// # Errors
/// What is no number, no fraction, or no sweep.
pub fn loads(text: &str) -> Result<Vec<f64>, TrafficError> {
    let wrong = |why: &str| TrafficError::LoadText { text: text.to_owned(), why: why.to_owned() };
    let number = |part: &str| {
        part.trim()
            .parse::<f64>()
            .ok()
            .filter(|value| value.is_finite())
            .ok_or_else(|| wrong("expected a load such as 0.5, a list such as 0.1,0.5,0.9 or a sweep A:B:STEP such as 0.1:1.0:0.1"))
    };
    let parts: Vec<f64> = text.split(':').map(|part| if text.contains(':') { number(part) } else { Ok(0.0) }).collect::<Result<_, _>>()?;
    let list = match parts[..] {
        [first, last, step] => {
            if step <= 0.0 || last < first {
                return Err(wrong("a sweep A:B:STEP goes up from A to B by a STEP above 0"));
            }
            let steps = ((last - first) / step + 1e-6).floor();
            if steps >= MAX_POINTS as f64 {
                return Err(wrong("more than 10000 points; a larger STEP gives fewer"));
            }
            // Decimal fractions as a person would write them: 0.3, not 0.30000000000000004.
            (0..=steps as u32).map(|index| ((first + f64::from(index) * step) * 1e9).round() / 1e9).collect()
        }
        [_, _] => return Err(wrong("a sweep has three numbers, A:B:STEP, such as 0.1:1.0:0.1")),
        _ => text.split(',').map(number).collect::<Result<Vec<f64>, _>>()?,
    };
    if let Some(&load) = list.iter().find(|load| !(**load > 0.0 && **load <= 1.0)) {
        return Err(TrafficError::Load { load });
    }
    if let Some(&load) = list.iter().find(|load| **load < LEAST_LOAD) {
        return Err(TrafficError::TooLittle { load, least: LEAST_LOAD });
    }
    Ok(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sweeps_and_lists_have_the_numbers_that_a_person_expects() {
        assert_eq!(loads("0.1:1.0:0.1").unwrap(), [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]);
        assert_eq!(loads("0.05:0.5:0.2").unwrap(), [0.05, 0.25, 0.45]);
        assert_eq!(loads("0.5").unwrap(), [0.5]);
        assert_eq!(loads("0.1, 0.9").unwrap(), [0.1, 0.9]);
    }

    #[test]
    fn mistakes_say_what_would_be_right() {
        for (text, expected) in [
            ("1.2", "load 1.2: a load is a fraction of the injection bandwidth, above 0 and at most 1"),
            ("0:1:0.1", "load 0: a load is"),
            ("1e-300", "load 1e-300: expected at least 1e-9"),
            ("0.5,1e-10", "load 1e-10: expected at least 1e-9"),
            ("0.1:1.2:0.1", "load 1.1: a load is"),
            ("0.1:0.5", "three numbers"),
            ("0.5:0.1:0.1", "goes up from A to B"),
            ("0.1:0.5:0", "goes up from A to B"),
            ("0.1:0.5:1e-9", "more than 10000 points"),
            ("half", "expected a load such as 0.5"),
            ("0.1:x:0.1", "expected a load such as 0.5"),
            ("nan", "expected a load such as 0.5"),
            ("", "expected a load such as 0.5"),
        ] {
            let message = loads(text).unwrap_err().to_string();
            assert!(message.contains(expected), "{message}");
        }
    }
}
