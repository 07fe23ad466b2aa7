//! How long messages are.

use crate::TrafficError;
use narrows_engine::random::Stream;
use narrows_units::Bytes;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// Largest message: what a network takes.
const MAX_SIZE: u64 = 1 << 40;

/// A distribution of message sizes.
#[derive(Clone, Debug, PartialEq)]
pub enum Sizes {
    /// All alike.
    Fixed(Bytes),
    /// `uniform:LOW,HIGH`, both included.
    Uniform(Bytes, Bytes),
    /// From a table.
    Table(Arc<SizeTable>),
}

/// A cumulative distribution: between two of its points the sizes are spread evenly.
#[derive(Clone, Debug, PartialEq)]
pub struct SizeTable {
    name: String,
    /// Size in bytes and the fraction of messages up to it, both rising; the last fraction is 1.
    points: Vec<(u64, f64)>,
}

/// Web search: message sizes of a production cluster, Alizadeh et al., "Data Center TCP (DCTCP)", SIGCOMM 2010, figure
/// 4, as tabulated for "pFabric" (Alizadeh et al., SIGCOMM 2013) in packets of 1,460 B. Their mean is given as 1,138
/// packets.
const WEB_SEARCH: [(u64, f64); 11] =
    [(6, 0.15), (13, 0.2), (19, 0.3), (33, 0.4), (53, 0.53), (133, 0.6), (667, 0.7), (1333, 0.8), (3333, 0.9), (6667, 0.97), (20000, 1.0)];

/// Data mining: Greenberg et al., "VL2", SIGCOMM 2009, figure 2, as tabulated for pFabric in packets of 1,460 B. Their
/// mean is given as 5,117 packets.
const DATA_MINING: [(u64, f64); 8] = [(1, 0.5), (2, 0.6), (3, 0.7), (7, 0.8), (267, 0.9), (2107, 0.95), (66_667, 0.99), (666_667, 1.0)];

/// Hadoop: message sizes of a cluster of Facebook, Roy et al., "Inside the social network's (datacenter) network",
/// SIGCOMM 2015, in bytes as tabulated for HPCC (SIGCOMM 2019; `traffic_gen/FbHdp_distribution.txt` of
/// github.com/alibaba-edu/High-Precision-Congestion-Control).
const HADOOP: [(u64, f64); 19] = [
    (100, 0.01),
    (200, 0.02),
    (300, 0.05),
    (350, 0.15),
    (400, 0.2),
    (500, 0.3),
    (600, 0.4),
    (700, 0.5),
    (1000, 0.6),
    (2000, 0.67),
    (7000, 0.7),
    (30_000, 0.72),
    (50_000, 0.82),
    (80_000, 0.87),
    (120_000, 0.9),
    (300_000, 0.95),
    (1_000_000, 0.975),
    (2_000_000, 0.99),
    (10_000_000, 1.0),
];

/// Bytes of a packet in the first two tables.
const TABLE_PACKET: u64 = 1460;

impl SizeTable {
    /// The web-search distribution.
    pub fn web_search() -> SizeTable {
        SizeTable::in_packets("web-search", &WEB_SEARCH)
    }

    /// The data-mining distribution.
    pub fn data_mining() -> SizeTable {
        SizeTable::in_packets("data-mining", &DATA_MINING)
    }

    /// The Hadoop distribution.
    pub fn hadoop() -> SizeTable {
        SizeTable { name: String::from("hadoop"), points: HADOOP.to_vec() }
    }

    fn in_packets(name: &str, points: &[(u64, f64)]) -> SizeTable {
        SizeTable { name: name.to_owned(), points: points.iter().map(|&(packets, share)| (packets * TABLE_PACKET, share)).collect() }
    }

    /// From lines `bytes,fraction`: fractions of messages up to that size, rising to 1. `#` starts a comment; a first
    /// line of words is a header. The fraction of the first line is that of messages of exactly its size.
    ///
    /// # Errors
    /// The first line that is wrong, with its number.
    pub fn parse(name: &str, text: &str) -> Result<SizeTable, TrafficError> {
        let mut points: Vec<(u64, f64)> = Vec::new();
        let mut last_line = 1;
        for (index, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            let wrong = |why: &str| TrafficError::File { file: name.to_owned(), line: index + 1, why: why.to_owned() };
            if line.is_empty() || (points.is_empty() && line.starts_with(|first: char| first.is_ascii_alphabetic())) {
                continue;
            }
            last_line = index + 1;
            let (size, share) = line.split_once(',').ok_or_else(|| wrong("expected two columns, bytes and fraction, such as 1460,0.25"))?;
            let size = size.trim().parse::<u64>().ok().filter(|size| (1..=MAX_SIZE).contains(size));
            let size = size.ok_or_else(|| wrong("expected a whole number of bytes from 1 to 1 TiB in the first column"))?;
            let share = share.trim().parse::<f64>().ok().filter(|share| (0.0..=1.0).contains(share));
            let share = share.ok_or_else(|| wrong("expected a fraction from 0 to 1 in the second column"))?;
            if points.last().is_some_and(|&(before, below)| size <= before || share < below) {
                return Err(wrong("sizes and fractions must rise from line to line"));
            }
            points.push((size, share));
        }
        if points.last().is_none_or(|&(_, share)| share != 1.0) {
            let why = String::from("the last line must have the fraction 1");
            return Err(TrafficError::File { file: name.to_owned(), line: last_line, why });
        }
        Ok(SizeTable { name: name.to_owned(), points })
    }

    /// Each segment: sizes above the first number up to the second, evenly, and their share. The first is a single
    /// size.
    fn segments(&self) -> impl Iterator<Item = (u64, u64, f64)> + '_ {
        let mut before = (self.points[0].0 - 1, 0.0);
        self.points.iter().map(move |&(size, share)| {
            let segment = (before.0, size, share - before.1);
            before = (size, share);
            segment
        })
    }

    fn draw(&self, random: &mut Stream) -> u64 {
        // 53 bits make every fraction exact.
        let share = (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        let index = self.points.partition_point(|&(_, below)| below <= share).min(self.points.len() - 1);
        if index == 0 {
            return self.points[0].0;
        }
        let (low, high) = (self.points[index - 1].0, self.points[index].0);
        low + 1 + random.below(high - low)
    }
}

/// The sum of `ceil(size / unit)` over the sizes 1 to `up_to`.
fn sum_of_packets(up_to: u64, unit: u64) -> f64 {
    let (full, rest) = ((up_to / unit) as f64, (up_to % unit) as f64);
    unit as f64 * full * (full + 1.0) / 2.0 + rest * (full + 1.0)
}

impl Sizes {
    /// The size of the next message.
    #[inline]
    pub fn draw(&self, random: &mut Stream) -> u64 {
        match self {
            Sizes::Fixed(size) => size.0,
            Sizes::Uniform(low, high) => low.0 + random.below(high.0 - low.0 + 1),
            Sizes::Table(table) => table.draw(random),
        }
    }

    /// Mean payload bytes.
    pub fn mean(&self) -> f64 {
        match self {
            Sizes::Fixed(size) => size.0 as f64,
            Sizes::Uniform(low, high) => (low.0 as f64 + high.0 as f64) / 2.0,
            Sizes::Table(table) => table.segments().map(|(low, high, share)| share * (low as f64 + 1.0 + high as f64) / 2.0).sum(),
        }
    }

    /// Mean number of packets of at most `mtu` bytes; an empty message is one packet.
    pub fn mean_packets(&self, mtu: u64) -> f64 {
        let between = |low: u64, high: u64| (sum_of_packets(high, mtu) - sum_of_packets(low, mtu)) / (high - low) as f64;
        match self {
            Sizes::Fixed(size) => size.0.div_ceil(mtu).max(1) as f64,
            Sizes::Uniform(low, high) if low.0 == 0 => (between(0, high.0) * high.0 as f64 + 1.0) / (high.0 as f64 + 1.0),
            Sizes::Uniform(low, high) => between(low.0 - 1, high.0),
            Sizes::Table(table) => table.segments().map(|(low, high, share)| share * between(low, high)).sum(),
        }
    }
}

impl FromStr for Sizes {
    type Err = TrafficError;

    /// `4 KiB`, `uniform:64 B,4 KiB`, `web-search`, `data-mining`, `hadoop`, or the path of a table that ends in
    /// `.csv`.
    fn from_str(text: &str) -> Result<Sizes, TrafficError> {
        let wrong = |why: String| TrafficError::SizeText { text: text.to_owned(), why };
        let size = |part: &str| match part.trim().parse::<Bytes>() {
            Ok(size) if size.0 <= MAX_SIZE => Ok(size),
            Ok(size) => Err(wrong(format!("{size} is more than 1 TiB, the longest message"))),
            Err(error) => Err(wrong(error.to_string())),
        };
        if let Some(range) = text.strip_prefix("uniform:") {
            let (low, high) = range.split_once(',').ok_or_else(|| wrong(String::from("expected uniform:LOW,HIGH")))?;
            let (low, high) = (size(low)?, size(high)?);
            if low >= high {
                return Err(wrong(format!("{low} is not below {high}; expected uniform:LOW,HIGH")));
            }
            return Ok(Sizes::Uniform(low, high));
        }
        match text {
            "web-search" => Ok(Sizes::Table(Arc::new(SizeTable::web_search()))),
            "data-mining" => Ok(Sizes::Table(Arc::new(SizeTable::data_mining()))),
            "hadoop" => Ok(Sizes::Table(Arc::new(SizeTable::hadoop()))),
            _ if text.ends_with(".csv") => {
                let content = std::fs::read_to_string(text).map_err(|error| wrong(format!("cannot read the file: {error}")))?;
                Ok(Sizes::Table(Arc::new(SizeTable::parse(text, &content)?)))
            }
            _ if text.starts_with(|first: char| first.is_ascii_alphabetic()) => {
                Err(wrong(String::from("expected a size such as 4KiB, uniform:LOW,HIGH, web-search, data-mining, hadoop or FILE.csv")))
            }
            _ => Ok(Sizes::Fixed(size(text)?)),
        }
    }
}

impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Sizes::Fixed(size) => write!(f, "{size}"),
            Sizes::Uniform(low, high) => write!(f, "uniform:{low},{high}"),
            Sizes::Table(table) => f.write_str(&table.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows_engine::stream;

    fn of(text: &str) -> Sizes {
        text.parse().unwrap()
    }

    #[test]
    fn built_in_tables_have_their_published_means() {
        // The tables' makers give 1,138 and 5,117 packets; linear interpolation of the points gives 1,140.9 and
        // 5,116.6.
        assert!((of("web-search").mean() / 1460.0 / 1138.0 - 1.0).abs() < 0.005, "{}", of("web-search").mean() / 1460.0);
        assert!((of("data-mining").mean() / 1460.0 / 5117.0 - 1.0).abs() < 0.001, "{}", of("data-mining").mean() / 1460.0);
    }

    #[test]
    fn drawn_sizes_have_the_mean_and_the_fractions_of_the_table() {
        for text in ["web-search", "data-mining", "hadoop", "uniform:64B,9000B", "8KiB"] {
            let (sizes, mut random) = (of(text), stream(1, "test", 0));
            let drawn: Vec<u64> = (0..400_000).map(|_| sizes.draw(&mut random)).collect();
            let mean = drawn.iter().sum::<u64>() as f64 / drawn.len() as f64;
            // Standard error of the mean: 3 sigma / sqrt(n); sigma is below 8 means for data mining.
            assert!((mean / sizes.mean() - 1.0).abs() < 0.03, "{text}: {mean} and {}", sizes.mean());
            let packets = drawn.iter().map(|size| size.div_ceil(2048).max(1)).sum::<u64>() as f64 / drawn.len() as f64;
            assert!((packets / sizes.mean_packets(2048) - 1.0).abs() < 0.03, "{text}: {packets} and {}", sizes.mean_packets(2048));
            if let Sizes::Table(table) = &sizes {
                for &(size, share) in &table.points {
                    let below = drawn.iter().filter(|&&drawn| drawn <= size).count() as f64 / drawn.len() as f64;
                    assert!((below - share).abs() < 0.004, "{text}: {below} up to {size}, expected {share}");
                }
            }
        }
    }

    #[test]
    fn means_of_packets_are_exact() {
        let count = |low: u64, high: u64| (low..=high).map(|size| size.div_ceil(7).max(1)).sum::<u64>() as f64 / (high - low + 1) as f64;
        for (low, high) in [(0, 20), (1, 3), (5, 50), (7, 8)] {
            let sizes = Sizes::Uniform(Bytes(low), Bytes(high));
            assert!((sizes.mean_packets(7) - count(low, high)).abs() < 1e-9, "{low}..={high}");
        }
    }

    #[test]
    fn a_table_is_read_and_its_mistakes_have_line_numbers() {
        let table = SizeTable::parse("my.csv", "bytes,cdf\n100,0.5 # half\n\n300,1\n").unwrap();
        assert_eq!(Sizes::Table(Arc::new(table)).mean(), 0.5 * 100.0 + 0.5 * 200.5);
        let cases = [
            ("100;0.5\n", "my.csv:1: expected two columns"),
            ("100,0.5\nx,1\n", "my.csv:2: expected a whole number"),
            ("100,50\n", "my.csv:1: expected a fraction"),
            ("100,0.5\n90,1\n", "my.csv:2: sizes and fractions must rise"),
            ("100,0.5\n200,0.9\n", "my.csv:2: the last line must have the fraction 1"),
            ("", "my.csv:1: the last line"),
        ];
        for (text, expected) in cases {
            let message = SizeTable::parse("my.csv", text).unwrap_err().to_string();
            assert!(message.starts_with(expected), "{message}");
        }
    }

    #[test]
    fn wrong_sizes_say_what_would_be_right() {
        for (text, expected) in [
            ("4", "unknown unit"),
            ("uniform:4KiB", "expected uniform:LOW,HIGH"),
            ("uniform:4KiB,64B", "4 KiB is not below 64 B"),
            ("websearch", "web-search, data-mining, hadoop or FILE.csv"),
            ("2TiB", "the longest message"),
            ("no-such.csv", "cannot read the file"),
        ] {
            let message = text.parse::<Sizes>().unwrap_err().to_string();
            assert!(message.contains(expected), "{message}");
        }
    }
}
