//! The heap as the allocator of a process: threads, sizes, and forks in the middle of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::thread;

#[global_allocator]
static HEAP: narrows_heap::Heap = narrows_heap::Heap;

/// Blocks of all sizes that grow and shrink, each full of its own number.
fn churn(seed: usize, rounds: usize) {
    let mut blocks: Vec<Vec<usize>> = Vec::new();
    let mut state = seed;
    for round in 0..rounds {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (place, length) = ((state >> 33) % 64, (state >> 40) % (1 << ((state >> 20) % 16)));
        if place < blocks.len() {
            let number = blocks[place].first().copied();
            assert!(blocks[place].iter().all(|&word| Some(word) == number));
            let number = number.unwrap_or(round);
            blocks[place].resize(length, number);
            blocks[place].shrink_to_fit();
        } else {
            blocks.push(vec![round; length]);
        }
    }
    assert!(vec![0u8; 1 << 20].iter().all(|&byte| byte == 0));
}

#[test]
fn many_threads_of_many_sizes() {
    thread::scope(|scope| (0..4).for_each(|seed| drop(scope.spawn(move || churn(seed, 20_000)))));
}

#[repr(align(8192))]
struct Aligned([u8; 100]);

#[test]
fn alignment() {
    let blocks: Vec<Box<Aligned>> = (0..20).map(|number| Box::new(Aligned([number; 100]))).collect();
    assert!(blocks.iter().enumerate().all(|(number, block)| {
        std::ptr::from_ref(&**block).addr() % 8192 == 0 && block.0.iter().all(|&byte| usize::from(byte) == number)
    }));
}

static WAITS: AtomicBool = AtomicBool::new(false);
static DONE: AtomicU32 = AtomicU32::new(0);

/// What other libraries do before and after a fork may come to us.
extern "C" fn around_fork() {
    if WAITS.load(Relaxed) {
        drop(std::hint::black_box(vec![1u8; 1000]));
        DONE.fetch_add(1, Relaxed);
    }
}

/// In the child the heap is whole, and nobody has its lock.
#[test]
fn forks_while_others_allocate() {
    let over = Arc::new(AtomicBool::new(false));
    // SAFETY: functions for that.
    unsafe { libc::pthread_atfork(Some(around_fork), Some(around_fork), Some(around_fork)) };
    WAITS.store(true, Relaxed);
    let busy: Vec<_> = (0..3)
        .map(|seed| {
            let over = over.clone();
            thread::spawn(move || {
                while !over.load(Relaxed) {
                    churn(seed, 1000);
                }
            })
        })
        .collect();
    for number in 0..200 {
        // SAFETY: the child computes, and ends without destructors.
        let child = unsafe { libc::fork() };
        if child == 0 {
            churn(number, 100);
            // SAFETY: ends the child.
            unsafe { libc::_exit(7) };
        }
        let mut status = 0;
        // SAFETY: our own child.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!((libc::WIFEXITED(status), libc::WEXITSTATUS(status)), (true, 7));
    }
    over.store(true, Relaxed);
    for thread in busy {
        thread.join().unwrap();
    }
    assert_eq!(DONE.load(Relaxed), 400);
}
