//! The parts of `src/places.rs`, without the functions that stand before those of the C library.

use crate::places::{Line, MOST, Objects, Rounds};

/// What is waited for or held is known, as far as there is room, and nothing else.
#[test]
fn objects_come_and_go() {
    let mut objects = Objects::NONE;
    for place in 1..=MOST {
        assert_eq!(objects.change(place, |object| object.waiters += 1), Some(()));
    }
    assert_eq!(objects.change(MOST + 1, |object| object.waiters += 1), None, "there is no room");
    assert_eq!(objects.change(7, |object| object.held = true), Some(()));
    for place in 1..=MOST {
        objects.change(place, |object| object.waiters -= 1);
    }
    assert!(objects.get(7).is_some_and(|object| object.held) && objects.get(8).is_none(), "one is held");
    objects.change(7, |object| object.held = false);
    assert!(objects.get(7).is_none());
}

/// The first at a place is the one with the least clock; of those with the same clock the one that came first.
#[test]
fn the_line_goes_by_clocks() {
    let mut line = Line::EMPTY;
    let late = line.join(1, 300).unwrap();
    let early = line.join(1, 100).unwrap();
    let same = line.join(1, 100).unwrap();
    let other = line.join(2, 50).unwrap();
    for next in [early, same, late] {
        assert_eq!(line.first(1), Some(next));
        line.leave(next);
    }
    assert_eq!((line.first(1), line.first(2)), (None, Some(other)));
}

#[test]
fn a_full_line_takes_nobody() {
    let mut line = Line::EMPTY;
    let all: Vec<_> = (0..MOST as u64).map(|clock| line.join(1, clock).unwrap()).collect();
    assert_eq!(line.join(1, 0), None);
    line.leave(all[0]);
    assert!(line.join(1, 0).is_some());
}

/// Who has left a round may look at it while the others are in the next one.
#[test]
fn rounds_keep_their_clocks() {
    let mut rounds = Rounds::default();
    for round in 0..10 {
        rounds.come(round, 100 * round + 2);
        rounds.come(round, 100 * round + 1);
        assert_eq!(rounds.latest(round), 100 * round + 2);
        assert!(round == 0 || rounds.latest(round - 1) == 100 * (round - 1) + 2);
    }
}
