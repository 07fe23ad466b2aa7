//! What repeats: a list of tokens as loops within loops, after ScalaTrace (Noeth et al., JPDC 69, 2009).

use std::collections::BTreeMap;

/// A part of a shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    /// A place in the program text: its number, and the token that stands there.
    Slot(usize, u32),
    /// Parts that repeat; the number of the loop.
    Loop(usize, Vec<Node>),
}

/// A program text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// From the beginning to the end.
    pub nodes: Vec<Node>,
    /// Places in it.
    pub slots: usize,
    /// Loops in it.
    pub loops: usize,
}

/// How a list went through a shape.
#[derive(Debug, Default)]
pub struct Walk {
    /// By item: the place, and the round of its innermost loop.
    pub visits: Vec<(u32, u32)>,
    /// Loops and their rounds, each time one was entered.
    pub rounds: Vec<(usize, u32)>,
}

/// A repeated body is looked for among so many last parts. Our own choice: a body of a time step with 26 neighbours has
/// some hundred.
const WINDOW: usize = 1024;

impl Shape {
    /// No loops: a place for each item.
    pub fn flat(tokens: &[u32]) -> Shape {
        let nodes = tokens.iter().enumerate().map(|(slot, token)| Node::Slot(slot, *token)).collect();
        Shape { nodes, slots: tokens.len(), loops: 0 }
    }

    /// With all loops.
    pub fn folded(tokens: &[u32]) -> Shape {
        let mut folder = Folder::default();
        for token in tokens {
            let part = folder.number(Segment::Token(*token));
            folder.push(part);
        }
        let mut shape = Shape::default();
        let stack = std::mem::take(&mut folder.stack);
        shape.nodes = shape.unfold(&folder, &stack);
        shape
    }

    fn unfold(&mut self, folder: &Folder, parts: &[usize]) -> Vec<Node> {
        let mut nodes = Vec::with_capacity(parts.len());
        let mut at = 0;
        while let Some(part) = parts.get(at) {
            at += 1;
            match &folder.parts[*part] {
                Segment::Token(token) => {
                    self.slots += 1;
                    nodes.push(Node::Slot(self.slots - 1, *token));
                }
                Segment::Loop(body, _) => {
                    // (a b) (a b) a is a (b a) (b a): what is in no round stands in front, where it is the same however
                    // many rounds there are.
                    let shared = body.iter().zip(&parts[at..]).take_while(|(one, other)| one == other).count();
                    nodes.extend(self.unfold(folder, &body[..shared]));
                    let mut body = body.clone();
                    body.rotate_left(shared);
                    at += shared;
                    self.loops += 1;
                    let number = self.loops - 1;
                    let body = self.unfold(folder, &body);
                    nodes.push(Node::Loop(number, body));
                }
            }
        }
        nodes
    }

    /// Goes through it with a list: `None` if the list is another one.
    pub fn walk(&self, tokens: &[u32]) -> Option<Walk> {
        let mut walk = Walk::default();
        through(&self.nodes, tokens, 0, &mut walk).then_some(())?;
        (walk.visits.len() == tokens.len()).then_some(walk)
    }
}

fn through(nodes: &[Node], tokens: &[u32], round: u32, walk: &mut Walk) -> bool {
    for node in nodes {
        match node {
            Node::Slot(slot, token) => {
                if tokens.get(walk.visits.len()) != Some(token) {
                    return false;
                }
                walk.visits.push((*slot as u32, round));
            }
            Node::Loop(number, body) => {
                let mut rounds = 0;
                loop {
                    let before = (walk.visits.len(), walk.rounds.len());
                    if !through(body, tokens, rounds, walk) || walk.visits.len() == before.0 {
                        walk.visits.truncate(before.0);
                        walk.rounds.truncate(before.1);
                        break;
                    }
                    rounds += 1;
                }
                walk.rounds.push((*number, rounds));
            }
        }
    }
    true
}

/// A part while loops are found; equal ones have one number.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Segment {
    Token(u32),
    Loop(Vec<usize>, u32),
}

#[derive(Default)]
struct Folder {
    parts: Vec<Segment>,
    numbers: BTreeMap<Segment, usize>,
    stack: Vec<usize>,
}

impl Folder {
    fn number(&mut self, part: Segment) -> usize {
        if let Some(number) = self.numbers.get(&part) {
            return *number;
        }
        self.parts.push(part.clone());
        self.numbers.insert(part, self.parts.len() - 1);
        self.parts.len() - 1
    }

    fn push(&mut self, part: usize) {
        self.stack.push(part);
        while self.shorten() {}
    }

    /// Makes a loop of what now stands twice at the end, or a longer one.
    fn shorten(&mut self) -> bool {
        let end = self.stack.len();
        for length in 1..=WINDOW.min(end - 1) {
            let body = &self.stack[end - length..];
            if let Segment::Loop(of, rounds) = &self.parts[self.stack[end - length - 1]]
                && of.as_slice() == body
            {
                let longer = Segment::Loop(body.to_vec(), rounds + 1);
                self.replace(length + 1, longer);
                return true;
            }
            if 2 * length <= end
                && self.stack[end - 1] == self.stack[end - 1 - length]
                && self.stack[end - 2 * length..end - length] == *body
            {
                let new = Segment::Loop(body.to_vec(), 2);
                self.replace(2 * length, new);
                return true;
            }
        }
        false
    }

    fn replace(&mut self, length: usize, part: Segment) {
        let number = self.number(part);
        self.stack.truncate(self.stack.len() - length);
        self.stack.push(number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loops_within_loops_are_found() {
        // a (b c c c d) x 3 e
        let tokens = [0, 1, 2, 2, 2, 3, 1, 2, 2, 2, 3, 1, 2, 2, 2, 3, 4];
        let shape = Shape::folded(&tokens);
        assert_eq!((shape.slots, shape.loops), (5, 2));
        let rounds = |tokens: &[u32]| shape.walk(tokens).map(|walk| walk.rounds);
        assert_eq!(rounds(&tokens), Some(vec![(1, 3), (1, 3), (1, 3), (0, 3)]));
        // No round of the inner loop, one of the outer one.
        assert_eq!(rounds(&[0, 1, 3, 4]), Some(vec![(1, 0), (0, 1)]));
        assert_eq!(rounds(&[0, 1, 4]), None);
        assert_eq!(rounds(&[0, 1, 3, 4, 4]), None);
    }
}
