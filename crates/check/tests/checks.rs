//! Facts in, findings out.

use narrows_check::{Checked, Checker, Choice, Kind};
use narrows_facts::{Access, Collective, Fact, Message, Mode, NOBODY, Object, Part, ROOT, Signature, kind};
use narrows_mpicalls::{ANY, NONE, by_name};

fn id(name: &str) -> u32 {
    by_name(name).expect("a call of MPI")
}

fn ints(count: u64) -> Signature {
    Signature { bytes: 4 * count, kind: kind::of(kind::INTEGER, 4) }
}

fn doubles(count: u64) -> Signature {
    Signature { bytes: 8 * count, kind: kind::of(kind::REAL, 8) }
}

fn message(request: u32, receive: bool, peer: i64, tag: i64, signature: Signature) -> Message {
    let call = id(if receive { "MPI_Irecv" } else { "MPI_Isend" });
    let (mode, sum, pieces) = (Mode::Nonblocking, 0, Vec::new());
    Message { request, call, place: 0, receive, mode, communicator: 0, peer, tag, signature, sum, pieces }
}

fn send(request: u32, to: i64, tag: i64, signature: Signature) -> Fact {
    Fact::Message(message(request, false, to, tag, signature))
}

fn receive(request: u32, from: i64, tag: i64, signature: Signature) -> Fact {
    Fact::Message(message(request, true, from, tag, signature))
}

fn collective(name: &str, root: i64, operation: u32, same: Option<Signature>, send: Part, receive: Part) -> Fact {
    Fact::Collective(Collective { call: id(name), place: 0, communicator: 0, root, operation, same, send, receive })
}

/// Takes facts of ranks, each a picosecond later, and ends all ranks.
fn checked(ranks: u32, facts: Vec<(u32, Fact)>) -> Checked {
    let mut checker = Checker::new(ranks);
    for (time, (rank, fact)) in (0..).zip(facts) {
        checker.take(rank, time, fact);
    }
    for rank in 0..ranks {
        checker.take(rank, 1000, Fact::Finalize);
    }
    checker.finish()
}

fn kinds(checked: &Checked) -> Vec<Kind> {
    checked.findings.iter().map(|finding| finding.kind).collect()
}

fn over(requests: impl IntoIterator<Item = (u32, u32)>) -> Vec<(u32, Fact)> {
    requests.into_iter().map(|(rank, request)| (rank, Fact::Ended { request })).collect()
}

#[test]
fn messages_meet_in_the_order_of_their_pair() {
    // The second is too long for the second receive; another tag does not mix in.
    let facts = vec![
        (0, send(1, 1, 7, ints(1))),
        (0, send(2, 1, 8, ints(9))),
        (0, send(3, 1, 7, ints(3))),
        (1, receive(1, 0, 7, ints(2))),
        (1, receive(2, 0, 7, ints(2))),
        (1, receive(3, 0, 8, ints(9))),
    ];
    let facts = [facts, over([(0, 1), (0, 2), (0, 3), (1, 1), (1, 2), (1, 3)])].concat();
    let checked = checked(2, facts);
    assert_eq!(kinds(&checked), [Kind::Truncated]);
    assert!(checked.findings[0].text.contains("3 4-byte integers from rank 0 to rank 1"), "{}", checked.findings[0].text);
    assert!(checked.findings[0].text.contains("3.2.4"));
}

#[test]
fn a_wildcard_holds_up_those_behind_it() {
    // The first receive takes the message of rank 2; only then it is known that the second gets doubles.
    let facts = vec![
        (0, receive(1, ANY, 0, ints(2))),
        (0, receive(2, 1, 0, ints(2))),
        (1, send(1, 0, 0, doubles(1))),
        (2, send(1, 0, 0, ints(2))),
        (0, Fact::Matched { request: 1, source: 2, tag: 0 }),
    ];
    let checked = checked(3, [facts, over([(0, 1), (0, 2), (1, 1), (2, 1)])].concat());
    assert_eq!(kinds(&checked), [Kind::Signature]);
    assert_eq!(checked.findings[0].ranks, [0, 1]);
}

#[test]
fn what_a_deadlock_waits_for_is_named_with_what_comes_closest() {
    let unmet = |ranks: u32, facts: Vec<(u32, Fact)>| {
        let mut checker = Checker::new(ranks);
        (0..).zip(facts).for_each(|(time, (rank, fact))| checker.take(rank, time, fact));
        checker.unmet().into_iter().map(|(rank, text)| format!("{rank}: {text}")).collect::<Vec<_>>()
    };
    let on = |communicator, receive, peer, tag| Fact::Message(Message { communicator, ..message(9, receive, peer, tag, ints(1)) });
    assert_eq!(unmet(2, vec![(0, send(1, 1, 5, ints(1))), (1, receive(1, 0, 5, ints(1)))]), [""; 0]);
    assert_eq!(
        unmet(2, vec![(0, send(1, 1, 5, ints(1))), (1, receive(1, 0, 6, ints(1)))]),
        [
            "0: MPI_Isend to rank 1, tag 5: not received; rank 1 waits for tag 6 (MPI_Irecv)",
            "1: MPI_Irecv from rank 0, tag 6: no message fits; rank 0 has sent tag 5 (MPI_Isend)"
        ]
    );
    assert_eq!(
        unmet(3, vec![(0, receive(1, 2, 5, ints(1))), (1, send(1, 0, 5, ints(1)))]),
        [
            "0: MPI_Irecv from rank 2, tag 5: no message fits; rank 1 has sent to rank 0 (MPI_Isend)",
            "1: MPI_Isend to rank 0, tag 5: not received; rank 0 waits for rank 2 (MPI_Irecv)"
        ]
    );
    let made = |rank| (rank, Fact::Communicator { communicator: 5, members: vec![0, 1], remote: Vec::new() });
    assert_eq!(
        unmet(3, vec![made(0), made(1), (0, on(5, false, 1, 5)), (1, on(0, true, 0, 5))]),
        [
            "0: MPI_Isend to rank 1, tag 5, on a communicator of ranks 0-1: not received; rank 1 waits for one on MPI_COMM_WORLD (MPI_Irecv)",
            "1: MPI_Irecv from rank 0, tag 5: no message fits; rank 0 has sent one on a communicator of ranks 0-1 (MPI_Isend)"
        ]
    );
    // Nothing comes close, and a receive behind one that takes any tag of anybody.
    assert_eq!(
        unmet(2, vec![(1, receive(1, ANY, ANY, ints(1))), (1, receive(2, 0, 7, ints(1)))]),
        ["1: MPI_Irecv from any rank, any tag: no message fits", "1: MPI_Irecv from rank 0, tag 7: no message fits"]
    );
}

#[test]
fn what_could_have_come_first_is_a_choice() {
    let facts = vec![
        (1, send(1, 0, 0, ints(1))),
        (2, send(1, 0, 0, ints(1))),
        (3, send(1, 0, 9, ints(1))),
        (0, receive(1, ANY, 0, ints(1))),
        (0, Fact::Matched { request: 1, source: 1, tag: 0 }),
        (0, receive(2, ANY, ANY, ints(1))),
        (0, Fact::Matched { request: 2, source: 2, tag: 0 }),
        (0, receive(3, 3, 9, ints(1))),
    ];
    let checked = checked(4, [facts, over([(0, 1), (0, 2), (0, 3), (1, 1), (2, 1), (3, 1)])].concat());
    assert_eq!(kinds(&checked), []);
    let first = Choice { rank: 0, got: (1, 0), others: vec![(2, 1)] };
    let second = Choice { rank: 0, got: (2, 1), others: vec![(3, 2)] };
    assert_eq!(checked.choices, [first, second]);
}

#[test]
fn a_cancelled_message_makes_all_of_its_communicator_doubtful() {
    let facts = vec![(0, send(1, 1, 0, ints(4))), (1, receive(1, 0, 0, ints(1))), (1, Fact::Doubt { communicator: 0 })];
    assert_eq!(kinds(&checked(2, [facts, over([(0, 1), (1, 1)])].concat())), []);
}

#[test]
fn what_is_left_at_the_end_is_said_once() {
    let made = |number| Fact::Made { what: Object::Datatype, number, call: id("MPI_Type_vector"), place: 0 };
    let facts = vec![(0, send(1, 1, 0, ints(4))), (0, send(2, 1, 0, ints(4))), (0, made(1)), (0, made(2)), (1, made(1))];
    let facts = [facts, vec![(0, Fact::Freed { what: Object::Datatype, number: 2 })]].concat();
    let checked = checked(2, facts);
    assert_eq!(kinds(&checked), [Kind::Request, Kind::Unreceived, Kind::Leak]);
    assert_eq!(checked.findings[2].ranks, [0, 1]);
    assert!(checked.findings[2].text.starts_with("remark: a datatype was never freed"), "{}", checked.findings[2].text);
}

#[test]
fn buffers_of_requests_do_not_overlap() {
    let at = |request, receive, start, length| {
        let signature = Signature { bytes: length, kind: 0 };
        Fact::Message(Message { pieces: vec![(start, length)], ..message(request, receive, 1, i64::from(request), signature) })
    };
    let of = |facts: Vec<Fact>| {
        let mut checker = Checker::new(2);
        facts.into_iter().for_each(|fact| checker.take(0, 0, fact));
        kinds(&checker.finish())
    };
    assert_eq!(of(vec![at(1, true, 100, 50), at(2, true, 149, 8)]), [Kind::Overlap]);
    assert_eq!(of(vec![at(1, true, 100, 50), at(2, true, 150, 8)]), []);
    assert_eq!(of(vec![at(1, true, 100, 50), at(2, false, 90, 11)]), [Kind::Overlap]);
    // Several sends may read the same.
    assert_eq!(of(vec![at(1, false, 100, 50), at(2, false, 100, 50)]), []);
    assert_eq!(of(vec![at(1, true, 100, 50), Fact::Ended { request: 1 }, at(2, true, 100, 50)]), []);
    // A long one far before it.
    assert_eq!(of(vec![at(1, true, 0, 1000), at(2, true, 500, 1), at(3, true, 990, 8)]), [Kind::Overlap]);
}

#[test]
fn a_collective_that_some_rank_never_calls_is_a_mistake() {
    let bcast = || collective("MPI_Bcast", 0, 0, Some(ints(1)), Part::Unknown, Part::Unknown);
    let all = |ranks: &[u32]| ranks.iter().map(|&rank| (rank, bcast())).collect::<Vec<_>>();
    assert_eq!(kinds(&checked(3, all(&[0, 1, 2]))), []);
    let alone = checked(3, all(&[0, 1, 2, 0]));
    assert_eq!((kinds(&alone), &alone.findings[0].ranks[..]), (vec![Kind::Collective], &[0][..]));
    let text = &alone.findings[0].text;
    assert!(
        text.contains("the 2nd on MPI_COMM_WORLD: ranks 1-2 never call it (MPI_Bcast root 0 of 1 4-byte integers on rank 0)"),
        "{text}"
    );
    let root = checked(3, all(&[1, 2]));
    assert!(root.findings[0].text.contains("rank 0 never calls it"), "{}", root.findings[0].text);
    // A rank that has not told that it has the communicator may have called it, and one that goes on may come.
    let half = |members: Vec<u32>| {
        let new = move |rank| (rank, Fact::Communicator { communicator: 5, members: members.clone(), remote: Vec::new() });
        let mut call = bcast();
        if let Fact::Collective(call) = &mut call {
            call.communicator = 5;
        }
        (new, (0, call))
    };
    let (new, call) = half(vec![0, 1]);
    assert_eq!(kinds(&checked(2, vec![new(0), call.clone()])), []);
    assert_eq!(kinds(&checked(2, vec![new(0), new(1), call])), [Kind::Collective]);
    let mut running = Checker::new(2);
    running.take(0, 0, bcast());
    assert_eq!(kinds(&running.finish()), []);
}

#[test]
fn collectives_fit_or_not() {
    let same = |count| Some(ints(count));
    let bcast = |root, count| collective("MPI_Bcast", root, 0, same(count), Part::Unknown, Part::Unknown);
    let reduce = |operation| collective("MPI_Allreduce", NONE, operation, same(1), Part::Unknown, Part::Unknown);
    let of = |facts: Vec<(u32, Fact)>| checked(2, facts);
    assert_eq!(kinds(&of(vec![(0, bcast(0, 1)), (0, reduce(2)), (1, bcast(0, 1)), (1, reduce(2))])), []);
    let text = |facts| of(facts).findings.remove(0).text;
    assert!(text(vec![(0, bcast(0, 1)), (1, bcast(1, 1))]).contains("the 1st on MPI_COMM_WORLD: their roots differ"));
    assert!(text(vec![(0, bcast(0, 1)), (1, bcast(0, 2))]).contains("counts or types differ"));
    assert!(text(vec![(0, bcast(0, 1)), (0, reduce(2)), (1, bcast(0, 1)), (1, reduce(4))]).contains("the 2nd"));
    assert!(text(vec![(0, bcast(0, 1)), (1, reduce(2))]).contains("different ones"));
    // Large counts are no other collective, a non-blocking one is (section 6.12).
    let large = collective("MPI_Allreduce_c", NONE, 2, same(1), Part::Unknown, Part::Unknown);
    let later = collective("MPI_Iallreduce", NONE, 2, same(1), Part::Unknown, Part::Unknown);
    assert_eq!(kinds(&of(vec![(0, reduce(2)), (1, large)])), []);
    assert_eq!(kinds(&of(vec![(0, reduce(2)), (1, later)])), [Kind::Collective]);
}

#[test]
fn a_root_gets_what_the_others_send() {
    let gather = |send: Part, receive: Part| collective("MPI_Gatherv", 0, 0, None, send, receive);
    let root = || gather(Part::Each(ints(1)), Part::By(vec![4, 8]));
    assert_eq!(kinds(&checked(2, vec![(0, root()), (1, gather(Part::Each(ints(2)), Part::Unknown))])), []);
    let wrong = checked(2, vec![(1, gather(Part::Each(ints(1)), Part::Unknown)), (0, root())]);
    assert_eq!(kinds(&wrong), [Kind::Collective]);
    assert!(wrong.findings[0].text.contains("rank 1 sends 1 4-byte integers and rank 0 expects 8 bytes"), "{}", wrong.findings[0].text);
}

#[test]
fn communicators_are_known_by_their_members_and_their_order() {
    let made = |communicator, members: &[u32]| Fact::Communicator { communicator, members: members.to_vec(), remote: Vec::new() };
    let barrier = |communicator, name: &str| {
        let (send, receive) = (Part::Unknown, Part::Unknown);
        Fact::Collective(Collective { call: id(name), place: 0, communicator, root: NONE, operation: 0, same: None, send, receive })
    };
    // The ranks number them in their own ways.
    let facts = vec![(0, made(5, &[0, 1])), (1, made(2, &[1])), (1, made(3, &[0, 1])), (0, made(6, &[0, 1])), (1, made(4, &[0, 1]))];
    let good = vec![
        (0, barrier(5, "MPI_Barrier")),
        (0, barrier(6, "MPI_Ibarrier")),
        (1, barrier(4, "MPI_Ibarrier")),
        (1, barrier(3, "MPI_Barrier")),
    ];
    assert_eq!(kinds(&checked(2, [facts.clone(), good].concat())), []);
    let wrong = vec![(0, barrier(5, "MPI_Barrier")), (1, barrier(4, "MPI_Ibarrier")), (1, barrier(3, "MPI_Ibarrier"))];
    assert_eq!(kinds(&checked(2, [facts, wrong].concat())), [Kind::Collective]);
}

#[test]
fn windows_have_epochs() {
    let call = |name: &str, target: i64, assertion| Fact::Window { window: 1, call: id(name), place: 0, target, assertion };
    let of = |calls: Vec<Fact>| {
        let made = Fact::Made { what: Object::Window, number: 1, call: id("MPI_Win_create"), place: 0 };
        kinds(&checked(
            1,
            [vec![made], calls, vec![Fact::Freed { what: Object::Window, number: 1 }]].concat().into_iter().map(|f| (0, f)).collect(),
        ))
    };
    let (put, free) = (|| call("MPI_Put", 0, 0), || call("MPI_Win_free", NONE, 0));
    assert_eq!(of(vec![put(), free()]), [Kind::Epoch]);
    assert_eq!(of(vec![call("MPI_Win_fence", NONE, 0), put(), call("MPI_Win_fence", NONE, 2), free()]), []);
    assert_eq!(of(vec![call("MPI_Win_fence", NONE, 2), put(), free()]), [Kind::Epoch]);
    assert_eq!(of(vec![call("MPI_Win_fence", NONE, 0), put(), free()]), [Kind::OpenEpoch]);
    assert_eq!(of(vec![call("MPI_Win_lock", 0, 0), put(), call("MPI_Win_unlock", 0, 0), free()]), []);
    assert_eq!(of(vec![call("MPI_Win_lock", 1, 0), put(), call("MPI_Win_unlock", 1, 0), free()]), [Kind::Epoch]);
    assert_eq!(of(vec![call("MPI_Win_lock_all", NONE, 0), put(), free()]), [Kind::OpenEpoch]);
    let epoch = |name: &str, members: Vec<u32>| Fact::Epoch { window: 1, call: id(name), place: 0, members };
    let exposed = || Fact::Exposed { window: 1, communicator: 0, base: 4096, size: 64, unit: 1 };
    let complete = || call("MPI_Win_complete", NONE, 0);
    assert_eq!(of(vec![exposed(), epoch("MPI_Win_start", vec![0]), put(), complete(), free()]), []);
    assert_eq!(of(vec![exposed(), epoch("MPI_Win_start", vec![]), put(), complete(), free()]), [Kind::Epoch]);
    assert_eq!(of(vec![complete(), free()]), [Kind::Epoch]);
    assert_eq!(of(vec![epoch("MPI_Win_post", vec![0]), call("MPI_Win_wait", NONE, 0), free()]), []);
    assert_eq!(of(vec![epoch("MPI_Win_post", vec![0]), free()]), [Kind::OpenEpoch]);
    assert_eq!(of(vec![call("MPI_Win_wait", NONE, 0), free()]), [Kind::Epoch]);
    assert_eq!(of(vec![call("MPI_Win_unlock", 0, 0), free()]), [Kind::Epoch]);
    assert_eq!(of(vec![call("MPI_Win_flush", 0, 0), free()]), [Kind::Epoch]);
    let (lock, unlock) = (|| call("MPI_Win_lock", 0, 0), || call("MPI_Win_unlock", 0, 0));
    assert_eq!(of(vec![lock(), lock(), unlock(), free()]), [Kind::Epoch]);
    assert_eq!(of(vec![lock(), call("MPI_Win_fence", NONE, 2), unlock(), free()]), [Kind::Epoch]);
    assert_eq!(of(vec![call("MPI_Win_fence", NONE, 0), put(), lock(), unlock(), call("MPI_Win_fence", NONE, 2), free()]), [Kind::Epoch]);
    let access = |access| Fact::Access { window: 1, target: 0, access, displacement: 0, pieces: vec![(0, 8)] };
    let twice = |end: Vec<Fact>| {
        [vec![exposed(), lock(), put(), access(Access::Put)], end, vec![put(), access(Access::Put), unlock(), free()]].concat()
    };
    assert_eq!(of(twice(vec![])), [Kind::Conflict]);
    assert_eq!(of(twice(vec![call("MPI_Win_flush", 0, 0)])), []);
    // To nobody.
    assert_eq!(of(vec![call("MPI_Put", -1, 0), free()]), []);
}

#[test]
fn buffers_of_one_sided_operations_are_given_back_by_what_completes_them() {
    let window = |name: &str, target| Fact::Window { window: 1, call: id(name), place: 1, target, assertion: 0 };
    let made = || Fact::Made { what: Object::Window, number: 1, call: id("MPI_Win_create"), place: 0 };
    let gets = |end: Vec<Fact>| {
        let get = || vec![window("MPI_Get", 0), Fact::Origin { window: 1, target: 0, reads: vec![], writes: vec![(4096, 8)] }];
        let mut checker = Checker::new(1);
        [vec![made(), window("MPI_Win_lock_all", NONE)], get(), end, get()].concat().into_iter().for_each(|fact| checker.take(0, 0, fact));
        let overlaps = |finding: &&narrows_check::Finding| finding.kind == Kind::Overlap;
        checker.finish().findings.iter().filter(overlaps).count()
    };
    assert_eq!(gets(vec![]), 1);
    for name in ["MPI_Win_flush", "MPI_Win_flush_local", "MPI_Win_unlock"] {
        assert_eq!((gets(vec![window(name, 0)]), gets(vec![window(name, 1)])), (0, 1), "{name}");
    }
    for name in ["MPI_Win_flush_all", "MPI_Win_flush_local_all", "MPI_Win_unlock_all", "MPI_Win_fence", "MPI_Win_complete"] {
        assert_eq!(gets(vec![window(name, NONE)]), 0, "{name}");
    }
    let request = || Fact::Request { request: 5, call: id("MPI_Get"), place: 1 };
    assert_eq!((gets(vec![request()]), gets(vec![request(), Fact::Ended { request: 5 }])), (1, 0));
}

#[test]
fn what_is_received_is_what_was_sent() {
    let sent = |sum| Fact::Message(Message { sum, ..message(1, false, 1, 5, ints(2)) });
    let received = |peer, count| Fact::Message(Message { sum: 1, ..message(7, true, peer, 5, ints(count)) });
    let now = |sum| Fact::Received { request: 7, sum };
    let of = |facts: Vec<(u32, Fact)>| {
        let mut checker = Checker::new(2);
        facts.into_iter().for_each(|(rank, fact)| checker.take(rank, 0, fact));
        kinds(&checker.finish())
    };
    assert_eq!(of(vec![(0, sent(9)), (1, received(0, 2)), (1, now(9))]), []);
    assert_eq!(of(vec![(0, sent(9)), (1, received(0, 2)), (1, now(8))]), [Kind::Written]);
    // A part of the buffer says nothing, nor does a send that is not summed.
    assert_eq!(of(vec![(0, sent(9)), (1, received(0, 3)), (1, now(8))]), []);
    assert_eq!(of(vec![(0, sent(0)), (1, received(0, 2)), (1, now(8))]), []);
    let got = Fact::Matched { request: 7, source: 0, tag: 5 };
    assert_eq!(of(vec![(0, sent(9)), (1, received(ANY, 2)), (1, got.clone()), (1, now(8))]), [Kind::Written]);
    assert_eq!(of(vec![(1, received(ANY, 2)), (1, now(8)), (1, got), (0, sent(9))]), [Kind::Written]);
    // The sender is to blame where it has changed its buffer.
    assert_eq!(of(vec![(0, sent(9)), (1, received(0, 2)), (1, now(8)), (0, Fact::Changed { request: 1 })]), [Kind::Changed]);
}

#[test]
fn a_probe_of_anybody_is_a_choice() {
    let probed = Fact::Probed { communicator: 0, source: 1, tag: 5, wanted: ANY };
    let facts = vec![
        (1, send(1, 0, 5, ints(1))),
        (2, send(1, 0, 5, ints(1))),
        (0, probed),
        (0, receive(1, 1, 5, ints(1))),
        (0, receive(2, 2, 5, ints(1))),
    ];
    assert_eq!(checked(3, facts).choices, [Choice { rank: 0, got: (1, 0), others: vec![(2, 1)] }]);
}

#[test]
fn roots_between_two_groups() {
    let made = |rank: u32| {
        let (members, remote) = if rank < 2 { (vec![0, 1], vec![2, 3]) } else { (vec![2, 3], vec![0, 1]) };
        (rank, Fact::Communicator { communicator: 5, members, remote })
    };
    let bcast = |rank: u32, root, count| {
        let same = (root != NOBODY).then(|| ints(count));
        let (send, receive) = (Part::Unknown, Part::Unknown);
        let call = Collective { call: id("MPI_Bcast"), place: 0, communicator: 5, root, operation: 0, same, send, receive };
        (rank, Fact::Collective(call))
    };
    let of = |calls: [(u32, Fact); 4]| kinds(&checked(4, (0..4).map(made).chain(calls).collect()));
    assert_eq!(of([bcast(0, ROOT, 1), bcast(1, NOBODY, 1), bcast(2, 0, 1), bcast(3, 0, 1)]), []);
    assert_eq!(of([bcast(0, ROOT, 1), bcast(1, NOBODY, 1), bcast(2, 0, 1), bcast(3, 1, 1)]), [Kind::Collective]);
    assert_eq!(of([bcast(0, ROOT, 1), bcast(1, ROOT, 1), bcast(2, 0, 1), bcast(3, 0, 1)]), [Kind::Collective]);
    assert_eq!(of([bcast(0, NOBODY, 1), bcast(1, ROOT, 1), bcast(2, 0, 1), bcast(3, 0, 1)]), [Kind::Collective]);
    assert_eq!(of([bcast(0, ROOT, 1), bcast(1, NOBODY, 1), bcast(2, 0, 2), bcast(3, 0, 2)]), [Kind::Collective]);
}

#[test]
fn calls_that_the_level_of_threads_forbids() {
    let call = |other| Fact::Thread { call: id("MPI_Send"), place: 0, other, other_place: 0 };
    let checked = checked(1, vec![(0, call(0)), (0, call(id("MPI_Recv") + 1))]);
    assert_eq!(kinds(&checked), [Kind::Thread, Kind::Thread]);
    assert_eq!(checked.findings[1].calls, ["MPI_Send"]);
}
