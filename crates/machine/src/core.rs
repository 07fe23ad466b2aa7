//! The core of a processor, whose cycles `--compute cycles` counts: a named one, and what differs from it.

use narrows_cycles::{Class, Core, LEVELS, Level, UNIT, preset};
use narrows_keys::{Field, Limits, OrWord, Problem, Quantity, Value, choice, keys};
use narrows_units::{ByteRate, Bytes, SimTime};

keys! {
    /// `[node.core]`, `[processor.NAME.core]`: what `--compute cycles` counts with.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct CoreModel {
        /// With `--compute cycles`: the core, with its caches and the memory of a chip that has it.
        pub model: CoreName = "none";
        /// Its clock.
        pub clock: Clock = "model";
        /// What differs in its pipeline, a word and a number each: `width` (instructions a cycle), `window`
        /// (instructions in flight; 0: in order), `taken`, `mispredict` (more cycles of a branch), `misses` (in flight
        /// at a time), `line` (bytes); or a class of instructions with its latency, and the cycles until the next one
        /// of its class, such as `divide 12/6`.
        pub pipeline: Pipeline = [];
        /// First cache for data, such as `32 KiB, 4 ways, 3 cycles`; `none`: all loads take the latency of `load`.
        pub l1: CacheText = "model";
        /// Second cache; its cycles are from the address to the data. `4 cores` behind that: shared by so many.
        pub l2: CacheText = "model";
        /// Last cache.
        pub llc: CacheText = "model";
        /// From an address that no cache has to the data.
        pub memory_latency: ModelOr<SimTime> = "model";
        /// Bandwidth of the memory, shared by the cores of the processor.
        pub memory_bandwidth: ModelOr<ByteRate> = "model";
    }
}

choice! {
    /// A core by name, as `narrows_cycles::preset` has it.
    pub enum CoreName {
        /// No core is known.
        None = "none",
        /// Arm's, of two instructions a cycle, in order.
        CortexA53 = "cortex-a53",
        /// Arm's, of three.
        CortexA72 = "cortex-a72",
        /// Arm's, of six.
        CortexA78 = "cortex-a78",
        /// The OpenHW Group's, formerly Ariane.
        Cva6 = "cva6",
        /// Arm's, of eight.
        NeoverseV2 = "neoverse-v2",
        /// Intel's Skylake-SP.
        Skylake = "skylake",
        /// Marvell's.
        ThunderX2 = "thunderx2",
        /// SiFive's.
        U740 = "u740",
        /// AMD's Zen 2.
        Zen2 = "zen2",
    }
}

impl CoreModel {
    /// The core; `None`: no core is known.
    pub fn core(&self) -> Option<Core> {
        let mut core = preset(self.model.name())?;
        if let Some(clock) = self.clock.0 {
            core.clock_hz = clock;
        }
        let levels = [&self.l1, &self.l2, &self.llc];
        for (own, level) in levels.into_iter().zip(&mut core.levels) {
            *level = own.0.unwrap_or(*level);
        }
        if let Some(latency) = self.memory_latency.quantity() {
            core.memory_ps = latency.as_ps();
        }
        if let Some(rate) = self.memory_bandwidth.quantity() {
            core.memory_rate = rate.0;
        }
        self.pipeline.0.iter().for_each(|text| change(&mut core, text).expect("checked when it was read"));
        // A hit in the first cache is what a load takes.
        if core.levels[0].bytes != 0 {
            core.costs[Class::Load as usize].latency = cycles(f64::from(core.levels[0].latency));
        }
        Some(core)
    }
}

fn cycles(number: f64) -> u32 {
    (number * UNIT as f64).round() as u32
}

/// Sets what an entry of [`CoreModel::pipeline`] says. `None`: it says nothing.
fn change(core: &mut Core, text: &str) -> Option<()> {
    let (word, value) = text.trim().split_once(' ')?;
    let within = |text: &str, most: f64| text.trim().parse::<f64>().ok().filter(|number| (0.0..=most).contains(number));
    let count = |least: u32, most: u32| value.trim().parse::<u32>().ok().filter(|number| (least..=most).contains(number));
    match word {
        "width" => core.width = count(1, 16)?,
        "window" => core.window = count(0, 4096)?,
        "misses" => core.misses = count(1, 1024)?,
        "line" => core.line = count(8, 1024).filter(|line| line.is_power_of_two())?,
        "taken" => core.taken = cycles(within(value, 1000.0)?),
        "mispredict" => core.mispredict = cycles(within(value, 1000.0)?),
        _ => {
            let (class, _) = Class::ALL.into_iter().find(|(_, name)| *name == word)?;
            let (latency, interval) = value.split_once('/')?;
            let cost = &mut core.costs[class as usize];
            (cost.latency, cost.interval) = (cycles(within(latency, 10_000.0)?), cycles(within(interval, 10_000.0)?));
        }
    }
    Some(())
}

/// A quantity, or that of the named core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelOr<T>(Option<T>);

impl<T: Quantity> OrWord for ModelOr<T> {
    type Quantity = T;
    const WORD: &'static str = "model";
    fn of(quantity: Option<T>) -> Self {
        ModelOr(quantity)
    }
    fn quantity(&self) -> Option<T> {
        self.0
    }
}

/// Cycles per second; none: those of the named core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock(Option<u64>);

/// Slowest and fastest clock, Hz. Our own choice.
const SLOWEST: f64 = 1e6;
const FASTEST: f64 = 1e11;

impl Field for Clock {
    fn blank() -> Clock {
        Clock(None)
    }
    fn expected(&self, _: Limits) -> String {
        "expected \"model\", or a clock with its unit, such as \"1.5 GHz\"".to_owned()
    }
    fn reference(&self, _: Limits) -> String {
        "`\"model\"` or clock".to_owned()
    }
    fn set(&mut self, value: &Value, limits: Limits) -> Result<(), Problem> {
        let Value::Text(text) = value else { return Err(Problem::found(value, self.expected(limits))) };
        if text == "model" {
            *self = Clock(None);
            return Ok(());
        }
        let unit = [("GHz", 1e9), ("MHz", 1e6)].into_iter().find_map(|(unit, hz)| Some((text.strip_suffix(unit)?, hz)));
        let hz = unit.and_then(|(number, hz)| Some(number.trim().parse::<f64>().ok()? * hz));
        let hz = hz.filter(|hz| (SLOWEST..=FASTEST).contains(hz));
        *self = Clock(Some(hz.ok_or_else(|| Problem::new(format!("\"{text}\" is no clock"), self.expected(limits)))?.round() as u64));
        Ok(())
    }
    fn get(&self) -> Value {
        Value::Text(self.0.map_or_else(|| "model".to_owned(), |hz| format!("{} MHz", hz as f64 / 1e6)))
    }
}

/// A cache; none: that of the named core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheText(Option<Level>);

/// "32 KiB, 4 ways, 3 cycles, 2 cores".
fn cache(text: &str) -> Option<Level> {
    let mut parts = text.split(',').map(str::trim);
    let bytes = parts.next()?.parse::<Bytes>().ok()?.0;
    let mut number = |unit: &str| parts.next()?.strip_suffix(unit)?.trim().parse::<u32>().ok().filter(|number| *number > 0);
    let (ways, latency) = (number("ways")?, number("cycles")?);
    let cores = match parts.next() {
        Some(text) => text.strip_suffix("cores")?.trim().parse().ok().filter(|cores| *cores > 0)?,
        None => 1,
    };
    // A set of at least a line of 8 bytes; and what a rank can hold of lines.
    let right = parts.next().is_none() && (8 * u64::from(ways)..=1 << 32).contains(&bytes) && latency <= 10_000;
    right.then_some(Level { bytes, ways, latency, cores, zero: 0 })
}

impl Field for CacheText {
    fn blank() -> CacheText {
        CacheText(None)
    }
    fn expected(&self, _: Limits) -> String {
        "expected \"model\", \"none\", or a cache, such as \"1 MiB, 16 ways, 15 cycles, 4 cores\"".to_owned()
    }
    fn reference(&self, _: Limits) -> String {
        "`\"model\"`, `\"none\"` or cache".to_owned()
    }
    fn set(&mut self, value: &Value, limits: Limits) -> Result<(), Problem> {
        let Value::Text(text) = value else { return Err(Problem::found(value, self.expected(limits))) };
        *self = match &**text {
            "model" => CacheText(None),
            "none" => CacheText(Some(Level::default())),
            _ => CacheText(Some(cache(text).ok_or_else(|| Problem::new(format!("\"{text}\" is no cache"), self.expected(limits)))?)),
        };
        Ok(())
    }
    fn get(&self) -> Value {
        Value::Text(match self.0 {
            None => "model".to_owned(),
            Some(Level { bytes: 0, .. }) => "none".to_owned(),
            Some(Level { bytes, ways, latency, cores, .. }) => {
                let shared = if cores > 1 { format!(", {cores} cores") } else { String::new() };
                format!("{}, {ways} ways, {latency} cycles{shared}", Bytes(bytes))
            }
        })
    }
}

/// What differs in a pipeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pipeline(Vec<String>);

impl Field for Pipeline {
    fn blank() -> Pipeline {
        Pipeline(Vec::new())
    }
    fn expected(&self, _: Limits) -> String {
        "expected a list of texts, such as [\"width 4\", \"divide 12/6\"]".to_owned()
    }
    fn reference(&self, _: Limits) -> String {
        "list of texts".to_owned()
    }
    fn set(&mut self, value: &Value, limits: Limits) -> Result<(), Problem> {
        let mut texts = Vec::<String>::blank();
        texts.set(value, limits)?;
        if let Some(wrong) = texts.iter().find(|text| change(&mut Core::default(), text).is_none()) {
            let classes = Class::ALL.map(|(_, name)| name).join(", ");
            let mut problem = Problem::new(format!("\"{wrong}\" says nothing of a pipeline"), self.expected(limits));
            problem.help = format!("width, window, taken, mispredict, misses, line; latency/interval of {classes}");
            return Err(problem);
        }
        *self = Pipeline(texts);
        Ok(())
    }
    fn get(&self) -> Value {
        self.0.get()
    }
}

const _: () = assert!(LEVELS == 3);

#[cfg(test)]
mod tests {
    use super::*;
    use narrows_keys::{Key, Keys};

    fn model(of: &[(&str, Value)]) -> Result<CoreModel, String> {
        let mut model = CoreModel::blank();
        for (path, value) in of {
            let mut keys: Vec<Key<'_>> = Vec::new();
            model.list("core", &mut keys);
            let key = keys.iter_mut().find(|key| key.path == *path).unwrap();
            key.field.set(value, Limits::NONE).map_err(|problem| problem.message)?;
        }
        Ok(model)
    }

    fn text(text: &str) -> Value {
        Value::Text(text.to_owned())
    }

    #[test]
    fn names_are_those_of_the_model() {
        let names: Vec<&str> = CoreName::NAMES.iter().copied().filter(|name| *name != "none").collect();
        assert_eq!(names, narrows_cycles::NAMES);
        assert!(names.iter().all(|name| model(&[("core.model", text(name))]).unwrap().core().is_some()));
        assert_eq!(model(&[]).unwrap().core(), None);
    }

    #[test]
    fn what_a_file_says_takes_the_place_of_what_the_named_core_has() {
        let changed = model(&[
            ("core.model", text("cortex-a53")),
            ("core.clock", text("1.4 GHz")),
            ("core.l1", text("16 KiB, 2 ways, 2 cycles")),
            ("core.l2", text("2 MiB, 8 ways, 20 cycles, 4 cores")),
            ("core.memory_bandwidth", text("1 GB/s")),
            ("core.pipeline", Value::list(["width 1", "divide 12/6", "taken 0"].map(text))),
        ]);
        let (core, named) = (changed.unwrap().core().unwrap(), preset("cortex-a53").unwrap());
        assert_eq!((core.clock_hz, core.width, core.taken), (1_400_000_000, 1, 0));
        assert_eq!(core.levels[0], Level { bytes: 16 << 10, ways: 2, latency: 2, cores: 1, zero: 0 });
        assert_eq!(core.levels[1], Level { bytes: 2 << 20, ways: 8, latency: 20, cores: 4, zero: 0 });
        assert_eq!((core.memory_rate, core.memory_ps), (1_000_000_000, named.memory_ps));
        assert_eq!(core.cost(Class::Divide), narrows_cycles::Cost { latency: 12 * 240, interval: 6 * 240 });
        assert_eq!(core.cost(Class::Load).latency, 2 * 240, "that of the first cache");
        let without = model(&[("core.model", text("cva6")), ("core.l1", text("none"))]).unwrap().core().unwrap();
        assert!(!without.has_caches());
    }

    #[test]
    fn nonsense_is_refused_and_values_read_back() {
        for (path, wrong) in [
            ("core.clock", "fast"),
            ("core.clock", "3 Hz"),
            ("core.l1", "32 KiB"),
            ("core.l1", "32 KiB, 0 ways, 3 cycles"),
            ("core.l2", "1 MiB, 8 ways, 3 cycles, 2 cores, 1"),
            ("core.model", "cortex-a9"),
        ] {
            assert!(model(&[(path, text(wrong))]).is_err(), "{path} {wrong}");
        }
        for wrong in ["width", "width 0", "divide 12", "divide a/b", "nothing 1/1", "line 48"] {
            assert!(model(&[("core.pipeline", Value::list([text(wrong)]))]).is_err(), "{wrong}");
        }
        let mut clock = Clock::blank();
        clock.set(&text("2.25 GHz"), Limits::NONE).unwrap();
        assert!(matches!(clock.get(), Value::Text(text) if text == "2250 MHz"));
        let mut cache = CacheText::blank();
        cache.set(&text("2 MiB, 8 ways, 20 cycles"), Limits::NONE).unwrap();
        assert!(matches!(cache.get(), Value::Text(text) if text == "2 MiB, 8 ways, 20 cycles"));
    }
}
