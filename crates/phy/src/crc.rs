//! The frame check sequence (clause 3.2.9): CRC-32, least significant bit first.

/// x^32 + x^26 + x^23 + ... + 1, reflected.
const POLYNOMIAL: u32 = 0xedb8_8320;

/// `TABLES[n][byte]`: what a byte that stands `n` bytes before the end contributes.
static TABLES: [[u32; 256]; 8] = tables();

const fn tables() -> [[u32; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let (mut value, mut bit) = (byte as u32, 0);
        while bit < 8 {
            value = if value & 1 == 1 { value >> 1 ^ POLYNOMIAL } else { value >> 1 };
            bit += 1;
        }
        tables[0][byte] = value;
        byte += 1;
    }
    let mut table = 1;
    while table < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[table - 1][byte];
            tables[table][byte] = before >> 8 ^ tables[0][(before & 0xff) as usize];
            byte += 1;
        }
        table += 1;
    }
    tables
}

/// CRC-32 of `bytes`; its four bytes go behind them with the lowest one first.
pub fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    let mut words = bytes.chunks_exact(8);
    for word in &mut words {
        let word = u64::from_le_bytes(word.try_into().expect("chunks of 8")) ^ u64::from(crc);
        crc = (0..8).fold(0, |sum, byte| sum ^ TABLES[7 - byte][(word >> (8 * byte) & 0xff) as usize]);
    }
    for &byte in words.remainder() {
        crc = crc >> 8 ^ TABLES[0][((crc ^ u32::from(byte)) & 0xff) as usize];
    }
    !crc
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_value_and_the_residue_are_those_of_the_standard() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        for length in 0..40u8 {
            let mut frame: Vec<u8> = (0..length).map(|byte| byte.wrapping_mul(37)).collect();
            frame.extend(crc32(&frame).to_le_bytes());
            // The register after frame and FCS, before its last inversion.
            assert_eq!(!crc32(&frame), 0xdebb_20e3);
        }
    }
}
