//! Steps of the training of a transformer, made up: what each rank computes and says to others under data, tensor,
//! pipeline and expert parallelism.
//!
//! After Megatron-LM:
//!
//! * S: M. Shoeybi et al., "Megatron-LM: Training Multi-Billion Parameter Language Models Using Model Parallelism",
//!   2019 (arXiv:1909.08053): how layers are cut among ranks.
//! * N: D. Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM", SC
//!   2021: pipeline schedule, sizes of messages (section 3), number of parameters (equation 2).
//! * K: V. Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models", MLSys 2023: operations
//!   of a step without recomputation (appendix A).
//!
//! With b sequences of s tokens in a micro-batch, hidden size h, vocabulary V, t tensor-parallel ranks:
//!
//! | what | operations forward, twice as many backward (K) |
//! |---|---|
//! | attention of a layer | 8 b s h^2 + 4 b s^2 h |
//! | multi-layer perceptron | 16 b s h^2, for each expert of a token; 2 b s h E to choose among E |
//! | logits, on the last stage | 2 b s h V |
//!
//! | who | what | bytes |
//! |---|---|---|
//! | tensor-parallel ranks | 2 all-reduces per layer forward, 2 backward; one for the embedding, one for the logits (S, 3) | b s h values |
//! | stages of the pipeline | activations forward, gradients backward, from each rank to its like (N, 3.2) | b s h values |
//! | expert-parallel ranks | 2 all-to-alls per layer forward, 2 backward: tokens to their experts and back | b s h values per expert of a token |
//! | data-parallel ranks | an all-reduce at the end of the step | the gradients of the rank's parameters |
//! | first and last stage | an all-reduce of the embedding, which both have (N, Megatron-LM's code) | h V / t gradients |
//!
//! Left out: all-reduces of b s numbers in the loss, the optimiser, the reading of the data. The ranks are numbered as
//! Megatron-LM does it: neighbours are tensor-parallel, then data-parallel; stages are farthest apart.
//!
//! Kernels run on CPU 1, beside the core that communicates, as in traces of real trainings ([`crate::chakra`]). The
//! schedule is 1F1B (N, 2.2.1): as many micro-batches forward as stages follow, then one forward and one backward by
//! turns. Sends between stages are not waited for, receives are.

use crate::Communicators;
use crate::error::{TraceError, expected, found};
use crate::generate::Ahead;
use crate::operation::{Collective, CollectiveCall, Dependency, Kind, Operation, Order, Program};
use crate::sequence::Sink;
use narrows_units::{Bytes, PS_PER_S, SimTime};

/// The accelerator.
const ACCELERATOR: u8 = 1;
const FORWARD: u32 = 0;
const BACKWARD: u32 = 1;

/// The model, and how it is spread over ranks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Transformer {
    /// Of all kinds together.
    pub ranks: u32,
    /// Training steps.
    pub steps: u32,
    /// Layers.
    pub layers: u32,
    /// Hidden size: values of a token.
    pub hidden: u64,
    /// Tokens of a sequence.
    pub sequence: u64,
    /// Words.
    pub vocabulary: u64,
    /// Sequences of a step, of all ranks together.
    pub batch: u64,
    /// Sequences of a micro-batch.
    pub micro_batch: u64,
    /// Tensor-parallel ranks.
    pub tensor: u32,
    /// Stages of the pipeline.
    pub pipeline: u32,
    /// Experts of a layer; 0: a dense model.
    pub experts: u32,
    /// Experts of a token.
    pub experts_per_token: u32,
    /// Expert-parallel ranks, among the data-parallel ones.
    pub expert: u32,
    /// Bytes of a value (activations and their gradients).
    pub value_bytes: u64,
    /// Bytes of the gradient of a parameter.
    pub gradient_bytes: u64,
    /// Floating-point operations per second of a rank, as reached in training.
    pub flops_per_s: f64,
}

impl Default for Transformer {
    /// The smallest model of N, table 1: 1.7 billion parameters on 32 A100 with 137 TFLOP/s each, bfloat16 with
    /// gradients of 4 bytes (Megatron-LM's default for it).
    fn default() -> Transformer {
        Transformer {
            ranks: 32,
            steps: 1,
            layers: 24,
            hidden: 2304,
            sequence: 2048,
            vocabulary: 51_200,
            batch: 512,
            micro_batch: 1,
            tensor: 1,
            pipeline: 1,
            experts: 0,
            experts_per_token: 1,
            expert: 1,
            value_bytes: 2,
            gradient_bytes: 4,
            flops_per_s: 137e12,
        }
    }
}

impl Transformer {
    /// Data-parallel ranks.
    pub fn data(&self) -> u32 {
        self.ranks / (self.tensor * self.pipeline)
    }

    /// Micro-batches of a step that each pipeline works on.
    pub fn micro_batches(&self) -> u64 {
        self.batch / (u64::from(self.data()) * self.micro_batch)
    }

    fn check(&self) -> Result<(), TraceError> {
        let most = |what: &str, value: u64, limit: u64| match value {
            0 => Err(found(format!("at least one as number of {what}"), "0")),
            value if value > limit => Err(found(format!("at most {limit} as number of {what}"), value)),
            _ => Ok(()),
        };
        most("ranks", u64::from(self.ranks), 1 << 24)?;
        most("layers", u64::from(self.layers), 1 << 16)?;
        most("values of a token", self.hidden, 1 << 20)?;
        most("tokens of a sequence", self.sequence, 1 << 24)?;
        most("sequences", self.batch, 1 << 32)?;
        most("sequences of a micro-batch", self.micro_batch, 1 << 16)?;
        most("tensor-parallel ranks", u64::from(self.tensor), 1 << 24)?;
        most("stages", u64::from(self.pipeline), 1 << 24)?;
        most("expert-parallel ranks", u64::from(self.expert), 1 << 24)?;
        most("experts of a token", u64::from(self.experts_per_token), u64::from(self.experts.max(1)))?;
        most("words", self.vocabulary.max(1), 1 << 32)?;
        most("experts", u64::from(self.experts.max(1)), 1 << 20)?;
        most("bytes of a value", self.value_bytes, 8)?;
        most("bytes of a gradient", self.gradient_bytes, 8)?;
        let divides = |part: u64, parts: &str, whole: u64, wholes: &str| {
            if whole.is_multiple_of(part) {
                Ok(())
            } else {
                Err(found(format!("a number of {wholes} that {parts} divide ({part})"), whole))
            }
        };
        let model = u64::from(self.tensor) * u64::from(self.pipeline);
        divides(model, "tensor-parallel ranks times stages", u64::from(self.ranks), "ranks")?;
        divides(u64::from(self.pipeline), "the stages", u64::from(self.layers), "layers")?;
        divides(u64::from(self.tensor), "the tensor-parallel ranks", self.hidden, "values of a token")?;
        let data = u64::from(self.data());
        divides(data * self.micro_batch, "data-parallel ranks times sequences of a micro-batch", self.batch, "sequences")?;
        if self.experts == 0 && self.expert > 1 {
            return Err(TraceError::Unsuitable(String::from("expert-parallel ranks need experts")));
        }
        if self.experts > 0 {
            if self.tensor > 1 {
                return Err(expected("one tensor-parallel rank with experts: how both go together is not modelled"));
            }
            divides(u64::from(self.expert), "the expert-parallel ranks", data, "data-parallel ranks")?;
            divides(u64::from(self.expert), "the expert-parallel ranks", u64::from(self.experts), "experts")?;
        }
        Ok(())
    }

    fn micro_batch_bytes(&self) -> u64 {
        self.micro_batch * self.sequence * self.hidden * self.value_bytes
    }

    /// Parameters of a rank that all data-parallel ranks have, and those of its experts.
    fn parameters(&self, stage: u32) -> (u64, u64) {
        let (h, t, experts) = (self.hidden, u64::from(self.tensor), u64::from(self.experts));
        let layers = u64::from(self.layers / self.pipeline);
        // Query, key, value, projection; two normalisations. What is added at the end of a cut matrix, and the
        // normalisations, every rank has.
        let attention = (4 * h * h + 3 * h) / t + h + 4 * h;
        let perceptron = (8 * h * h + 4 * h) / t + h;
        let (shared, own) = match experts {
            0 => (attention + perceptron, 0),
            experts => (attention + h * experts, experts / u64::from(self.expert) * perceptron),
        };
        let words = self.words() * h;
        let first = if stage == 0 { words + self.sequence * h } else { 0 };
        let last = if stage + 1 == self.pipeline { 2 * h + if stage > 0 { words } else { 0 } } else { 0 };
        (layers * shared + first + last, layers * own)
    }

    /// Words of a rank.
    fn words(&self) -> u64 {
        self.vocabulary.div_ceil(u64::from(self.tensor))
    }
}

/// A rank among its like.
#[derive(Clone, Copy)]
struct Coordinates {
    tensor: u32,
    data: u32,
    stage: u32,
}

/// Where the communicators of each kind begin.
#[derive(Clone, Copy, Debug, Default)]
struct Groups {
    tensor: u32,
    data: u32,
    expert: u32,
    expert_data: u32,
    embedding: u32,
}

/// The program of a training.
#[derive(Debug)]
pub struct Training {
    model: Transformer,
    communicators: Communicators,
    groups: Groups,
    ranks: Vec<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Parts of the program that are made: of each step a forward and a backward one per micro-batch, and the end.
    made: u64,
    ahead: Ahead,
    /// What the next operation waits for.
    after: Option<Dependency>,
    /// Operations since the last that was made.
    flops: f64,
}

impl Training {
    /// The program.
    ///
    /// # Errors
    /// The numbers do not go together.
    pub fn new(model: Transformer) -> Result<Training, TraceError> {
        model.check()?;
        let (t, d, p) = (model.tensor, model.data(), model.pipeline);
        let at = |tensor: u32, data: u32, stage: u32| tensor + t * (data + d * stage);
        let mut communicators = Communicators::world(model.ranks);
        let mut add = |count: u32, members: &dyn Fn(u32) -> Vec<u32>| {
            let first = communicators.count();
            for group in 0..count {
                communicators.add(members(group)).expect("ranks of the program, each once");
            }
            first
        };
        let mut groups = Groups::default();
        if t > 1 {
            groups.tensor = add(d * p, &|group| (0..t).map(|tensor| at(tensor, group % d, group / d)).collect());
        }
        if d > 1 {
            groups.data = add(t * p, &|group| (0..d).map(|data| at(group % t, data, group / t)).collect());
        }
        let (e, replicas) = (model.expert, d / model.expert);
        if e > 1 {
            let members = |group: u32| (0..e).map(|expert| at(0, expert + e * (group % replicas), group / replicas)).collect();
            groups.expert = add(replicas * p, &members);
        }
        if model.experts > 0 && replicas > 1 {
            groups.expert_data = add(e * p, &|group| (0..replicas).map(|replica| at(0, group % e + e * replica, group / e)).collect());
        }
        if p > 1 {
            groups.embedding = add(t * d, &|group| [0, p - 1].map(|stage| at(group % t, group / t, stage)).to_vec());
        }
        let ranks = (0..model.ranks).map(|_| State::default()).collect();
        Ok(Training { model, communicators, groups, ranks })
    }

    fn parts_of_step(&self) -> u64 {
        2 * self.model.micro_batches() + 1
    }

    /// Makes the next part of a rank's program.
    fn make(&mut self, rank: u32) -> Result<(), TraceError> {
        let (t, d) = (self.model.tensor, self.model.data());
        let place = Coordinates { tensor: rank % t, data: rank / t % d, stage: rank / t / d };
        let parts = self.parts_of_step();
        let micro_batches = self.model.micro_batches();
        let state = &mut self.ranks[rank as usize];
        let part = state.made % parts;
        state.made += 1;
        let mut script = Script { rank, place, model: &self.model, groups: &self.groups, state };
        // 1F1B: so many forward before the first one backward.
        let ahead = u64::from(self.model.pipeline - place.stage - 1).min(micro_batches);
        if part + 1 == parts {
            script.end()
        } else if part < ahead || (part < 2 * micro_batches - ahead && (part - ahead).is_multiple_of(2)) {
            script.forward()
        } else {
            script.backward()
        }
    }
}

impl Program for Training {
    fn ranks(&self) -> u32 {
        self.model.ranks
    }

    fn communicators(&self) -> &Communicators {
        &self.communicators
    }

    fn order(&self) -> Order {
        Order::Sequential
    }

    fn next(&mut self, rank: u32, after: &mut Vec<Dependency>) -> Result<Option<Operation>, TraceError> {
        loop {
            if let Some(operation) = self.ranks[rank as usize].ahead.take(after) {
                return Ok(Some(operation));
            }
            if self.ranks[rank as usize].made == self.parts_of_step() * u64::from(self.model.steps) {
                return Ok(None);
            }
            self.make(rank)?;
        }
    }
}

/// One rank in one part of its program.
struct Script<'a> {
    rank: u32,
    place: Coordinates,
    model: &'a Transformer,
    groups: &'a Groups,
    state: &'a mut State,
}

impl Script<'_> {
    fn forward(&mut self) -> Result<(), TraceError> {
        let model = self.model;
        let bytes = model.micro_batch_bytes();
        if self.place.stage > 0 {
            self.receive_from(self.place.stage - 1, FORWARD)?;
        } else {
            self.tensor_allreduce(bytes)?;
        }
        for _ in 0..model.layers / model.pipeline {
            self.state.flops += self.attention();
            self.tensor_allreduce(bytes)?;
            self.exchange_with_experts()?;
            self.state.flops += self.perceptron();
            self.exchange_with_experts()?;
            self.tensor_allreduce(bytes)?;
        }
        if self.place.stage + 1 < model.pipeline {
            self.send_to(self.place.stage + 1, FORWARD)
        } else {
            self.state.flops += self.logits();
            self.flush()
        }
    }

    fn backward(&mut self) -> Result<(), TraceError> {
        let model = self.model;
        let bytes = model.micro_batch_bytes();
        if self.place.stage + 1 < model.pipeline {
            self.receive_from(self.place.stage + 1, BACKWARD)?;
        } else {
            self.state.flops += 2.0 * self.logits();
            self.tensor_allreduce(bytes)?;
        }
        for _ in 0..model.layers / model.pipeline {
            self.exchange_with_experts()?;
            self.state.flops += 2.0 * self.perceptron();
            self.exchange_with_experts()?;
            self.tensor_allreduce(bytes)?;
            self.state.flops += 2.0 * self.attention();
            self.tensor_allreduce(bytes)?;
        }
        if self.place.stage > 0 { self.send_to(self.place.stage - 1, BACKWARD) } else { self.flush() }
    }

    /// The gradients of a step.
    fn end(&mut self) -> Result<(), TraceError> {
        let (model, Coordinates { tensor, data, stage }) = (self.model, self.place);
        let (shared, own) = model.parameters(stage);
        let (e, replicas) = (model.expert, model.data() / model.expert);
        if model.data() > 1 {
            self.allreduce(self.groups.data + tensor + model.tensor * stage, shared * model.gradient_bytes)?;
        }
        if model.experts > 0 && replicas > 1 {
            self.allreduce(self.groups.expert_data + data % e + e * stage, own * model.gradient_bytes)?;
        }
        if model.pipeline > 1 && (stage == 0 || stage + 1 == model.pipeline) {
            self.allreduce(self.groups.embedding + tensor + model.tensor * data, model.words() * model.hidden * model.gradient_bytes)?;
        }
        Ok(())
    }

    // Floating-point operations of this rank, forward.

    fn tokens(&self) -> f64 {
        (self.model.micro_batch * self.model.sequence) as f64
    }

    fn attention(&self) -> f64 {
        let (h, s) = (self.model.hidden as f64, self.model.sequence as f64);
        self.tokens() * (8.0 * h * h + 4.0 * s * h) / f64::from(self.model.tensor)
    }

    fn perceptron(&self) -> f64 {
        let (h, experts) = (self.model.hidden as f64, f64::from(self.model.experts));
        let each = if self.model.experts > 0 { f64::from(self.model.experts_per_token) } else { 1.0 };
        self.tokens() * (each * 16.0 * h * h + 2.0 * h * experts) / f64::from(self.model.tensor)
    }

    fn logits(&self) -> f64 {
        2.0 * self.tokens() * (self.model.hidden * self.model.vocabulary) as f64 / f64::from(self.model.tensor)
    }

    // Communication.

    fn tensor_allreduce(&mut self, bytes: u64) -> Result<(), TraceError> {
        if self.model.tensor == 1 {
            return Ok(());
        }
        self.allreduce(self.groups.tensor + self.place.data + self.model.data() * self.place.stage, bytes)
    }

    fn allreduce(&mut self, communicator: u32, bytes: u64) -> Result<(), TraceError> {
        self.collective(CollectiveCall {
            operation: Collective::Allreduce,
            communicator,
            root: 0,
            send: Bytes(bytes),
            receive: Bytes(bytes),
            element: Bytes(0),
        })
    }

    /// Tokens to their experts, or back.
    fn exchange_with_experts(&mut self) -> Result<(), TraceError> {
        let model = self.model;
        if model.experts == 0 || model.expert == 1 {
            return Ok(());
        }
        let parts = u64::from(model.expert);
        let bytes = (model.micro_batch_bytes() * u64::from(model.experts_per_token)).div_ceil(parts) * parts;
        let replicas = model.data() / model.expert;
        let communicator = self.groups.expert + self.place.data / model.expert + replicas * self.place.stage;
        self.collective(CollectiveCall {
            operation: Collective::Alltoall,
            communicator,
            root: 0,
            send: Bytes(bytes),
            receive: Bytes(bytes),
            element: Bytes(0),
        })
    }

    fn collective(&mut self, call: CollectiveCall) -> Result<(), TraceError> {
        self.flush()?;
        let number = self.push(Operation::new(Kind::Collective(call)))?;
        self.state.after = Some(Dependency::done(number));
        Ok(())
    }

    /// The same rank of another stage.
    fn like(&self, stage: u32) -> u32 {
        self.place.tensor + self.model.tensor * (self.place.data + self.model.data() * stage)
    }

    fn send_to(&mut self, stage: u32, tag: u32) -> Result<(), TraceError> {
        self.flush()?;
        let kind = Kind::Send { to: self.like(stage), bytes: Bytes(self.model.micro_batch_bytes()), tag };
        let number = self.push(Operation::new(kind))?;
        self.state.after = Some(Dependency::started(number));
        Ok(())
    }

    fn receive_from(&mut self, stage: u32, tag: u32) -> Result<(), TraceError> {
        self.flush()?;
        let kind = Kind::Receive { from: Some(self.like(stage)), bytes: Bytes(self.model.micro_batch_bytes()), tag: Some(tag) };
        let number = self.push(Operation::new(kind))?;
        self.state.after = Some(Dependency::done(number));
        Ok(())
    }

    /// What has been computed since the last communication, as one kernel.
    fn flush(&mut self) -> Result<(), TraceError> {
        let flops = std::mem::take(&mut self.state.flops);
        if flops > 0.0 {
            // Beyond 200 days the limits of all programs say so.
            let ps = (flops / self.model.flops_per_s * PS_PER_S as f64).min(SimTime::END.as_ps() as f64);
            let kind = Kind::Compute { duration: SimTime(ps.round() as u64) };
            let number = self.push(Operation { cpu: ACCELERATOR, ..Operation::new(kind) })?;
            self.state.after = Some(Dependency::done(number));
        }
        Ok(())
    }

    fn push(&mut self, operation: Operation) -> Result<u64, TraceError> {
        let after = self.state.after.take();
        self.state.ahead.push(self.rank, &operation, after.as_slice())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ideal;
    use std::collections::BTreeMap;

    fn training(model: Transformer) -> Training {
        Training::new(model).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Of one rank: bytes that it sends to others by kind of operation and communicator size, and picoseconds.
    fn sums(model: Transformer, rank: u32) -> (BTreeMap<(&'static str, u32), u64>, u64) {
        let mut program = training(model);
        let (mut after, mut bytes, mut work) = (Vec::new(), BTreeMap::new(), 0);
        while let Some(operation) = program.next(rank, &mut after).unwrap_or_else(|error| panic!("{error}")) {
            match operation.kind {
                Kind::Compute { duration } => work += duration.as_ps(),
                Kind::Send { bytes: Bytes(size), .. } => *bytes.entry(("send", 2)).or_default() += size,
                Kind::Receive { .. } => {}
                Kind::Collective(call) => {
                    let size = program.communicators.size(call.communicator).unwrap_or(0);
                    *bytes.entry((call.operation.name(), size)).or_default() += call.send.0;
                }
            }
        }
        (bytes, work)
    }

    fn finish(model: Transformer) -> SimTime {
        let outcome = ideal::run(&mut training(model), &mut ideal::Nobody).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(outcome.problems, Vec::<String>::new());
        outcome.finish.into_iter().max().unwrap_or_default()
    }

    /// K, appendix A: 72 B L s h^2 (1 + s / 6 h + V / 12 h L) operations per step, whoever does them.
    #[test]
    fn operations_of_a_step_are_those_of_the_published_formula() {
        for (tensor, pipeline) in [(1, 1), (2, 1), (1, 4), (4, 2)] {
            let model = Transformer { ranks: 16, layers: 8, hidden: 512, batch: 32, tensor, pipeline, ..Transformer::default() };
            let work: u64 = (0..16).map(|rank| sums(model, rank).1).sum();
            let (h, s, v) = (512.0, 2048.0, 51_200.0);
            let published = 72.0 * 32.0 * 8.0 * s * h * h * (1.0 + s / (6.0 * h) + v / (12.0 * h * 8.0));
            let flops = work as f64 * 1e-12 * model.flops_per_s;
            assert!((flops / published - 1.0).abs() < 1e-6, "tensor {tensor}, pipeline {pipeline}: {flops:e}, published {published:e}");
        }
    }

    /// N, equation 2 and table 1: billions of parameters; the last normalisation (2 h) is not in the equation.
    #[test]
    fn parameters_are_those_of_the_published_models() {
        for (layers, hidden, billions) in [(24, 2304, 1.7), (36, 4096, 7.5), (80, 12_288, 145.6), (128, 25_600, 1008.0)] {
            let model = Transformer { layers, hidden, ..Transformer::default() };
            let (h, l) = (hidden as f64, f64::from(layers));
            let equation = 12.0 * l * h * h * (1.0 + 13.0 / (12.0 * h) + (51_200.0 + 2048.0) / (12.0 * l * h));
            let parameters = model.parameters(0).0 as f64;
            assert!((parameters - 2.0 * h - equation).abs() / equation < 1e-12, "{parameters} {equation}");
            assert!((parameters / 1e9 - billions).abs() < 0.06, "{parameters:e}, published {billions} billion");
        }
    }

    /// S and N, section 3: 4 all-reduces per layer and micro-batch, one message each way, one all-reduce of gradients.
    #[test]
    fn bytes_of_a_rank_follow_from_the_sizes() {
        let model = Transformer {
            ranks: 24,
            layers: 12,
            hidden: 64,
            sequence: 128,
            vocabulary: 1000,
            batch: 24,
            micro_batch: 2,
            tensor: 4,
            pipeline: 3,
            ..Transformer::default()
        };
        assert_eq!((model.data(), model.micro_batches()), (2, 6));
        let micro_batch = 2 * 128 * 64 * 2;
        for (rank, more, neighbours) in [(0, 1, 1), (9, 0, 2), (23, 1, 1)] {
            let (bytes, _) = sums(model, rank);
            // Four layers; the first stage has the embedding, the last one the logits.
            assert_eq!(bytes[&("allreduce", 4)], 6 * (4 * 4 + more) * micro_batch, "rank {rank}");
            assert_eq!(bytes[&("send", 2)], 6 * neighbours * micro_batch, "rank {rank}");
            let (h, t) = (64, 4);
            let layers = 4 * (12 * h * h / t + 7 * h / t + 6 * h);
            let words = 250 * h;
            let (own, shared) = match rank {
                0 => (words + 128 * h, words),
                23 => (words + 2 * h, words),
                _ => (0, 0),
            };
            // Two data-parallel ranks; first and last stage are two as well.
            assert_eq!(bytes[&("allreduce", 2)], 4 * (layers + own + shared), "rank {rank}");
        }
    }

    /// m micro-batches on p stages that communicate in no time: the first one gets to the last stage, which is the
    /// slowest because of the logits and never waits, and the last one comes back: (p - 1) f + m (f' + b') + (p - 1) b.
    #[test]
    fn the_pipeline_takes_its_closed_form() {
        for (pipeline, batch, vocabulary) in [(1, 4, 1000), (4, 16, 0), (4, 8, 1000), (3, 2, 1000), (6, 6, 50_000)] {
            let model = Transformer {
                ranks: pipeline * 4,
                layers: 12,
                hidden: 128,
                sequence: 256,
                vocabulary,
                batch,
                micro_batch: 1,
                tensor: 2,
                pipeline,
                flops_per_s: 1e9,
                ..Transformer::default()
            };
            let m = model.micro_batches() as f64;
            let (h, s, v, p) = (128.0, 256.0, vocabulary as f64, f64::from(pipeline));
            let stage = 12.0 / p * s * (24.0 * h * h + 4.0 * s * h) / 2.0 / 1e9;
            let last = stage + 2.0 * s * h * v / 2.0 / 1e9;
            let expected = (p - 1.0) * 3.0 * stage + m * 3.0 * last;
            let found = finish(model).as_s_f64();
            assert!((found / expected - 1.0).abs() < 1e-6, "{pipeline} stages, {m} micro-batches: {found} s, expected {expected} s");
        }
    }

    /// Two all-to-alls forward and two backward per layer and micro-batch; each rank has its share of the experts.
    #[test]
    fn experts_are_reached_by_all_to_alls() {
        let model = Transformer {
            ranks: 16,
            steps: 3,
            layers: 4,
            hidden: 64,
            sequence: 128,
            vocabulary: 1000,
            batch: 32,
            pipeline: 2,
            experts: 8,
            experts_per_token: 2,
            expert: 4,
            ..Transformer::default()
        };
        let (bytes, _) = sums(model, 3);
        let per_micro_batch = 2 * 4 * 2 * (128 * 64 * 2);
        assert_eq!(bytes[&("alltoall", 4)], 3 * 4 * per_micro_batch);
        // Two experts in each of two layers, shared by two ranks; with it the embedding of first and last stage.
        let h = 64;
        assert_eq!(bytes[&("allreduce", 2)], 3 * 4 * (2 * 2 * (8 * h * h + 5 * h) + 1000 * h));
        assert_eq!(bytes[&("allreduce", 8)], 3 * 4 * (2 * (4 * h * h + 8 * h + h * 8) + (1000 + 128) * h));
        assert!(finish(model) > SimTime::ZERO);
    }

    #[test]
    fn numbers_that_do_not_go_together_are_refused() {
        let good = Transformer::default();
        let refused = |model: Transformer| Training::new(model).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(
            refused(Transformer { tensor: 3, ..good })
                .contains("expected a number of ranks that tensor-parallel ranks times stages divide (3)")
        );
        assert!(refused(Transformer { pipeline: 32, ..good }).contains("layers that the stages divide"));
        assert!(refused(Transformer { batch: 33, ..good }).contains("found 33"));
        assert!(refused(Transformer { expert: 2, ..good }).contains("need experts"));
        assert!(refused(Transformer { experts: 8, tensor: 2, ..good }).contains("not modelled"));
        assert!(refused(Transformer { experts: 8, experts_per_token: 9, ..good }).contains("at most 8"));
        assert!(refused(Transformer { micro_batch: 0, ..good }).contains("found 0"));
    }
}
