//! The frame check sequence (clause 3.2.9): CRC-32, least significant bit first.

/// CRC-32 of `bytes`; its four bytes go behind them with the lowest one first.
pub fn crc32(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes)
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
