//! x87 extended precision: ten bytes that count and six that do not.

use std::cmp::Ordering;

macro_rules! x87 {
    ($instruction:literal, $left:expr, $right:expr) => {{
        let mut result = [0_u8; 16];
        // SAFETY: loads ten bytes from each operand and stores ten to `result`, all of which have
        // sixteen; the two values on the x87 stack are popped again.
        unsafe {
            std::arch::asm!(
                "fld tbyte ptr [{left}]",
                "fld tbyte ptr [{right}]",
                $instruction,
                "fstp tbyte ptr [{result}]",
                left = in(reg) $left.as_ptr(),
                right = in(reg) $right.as_ptr(),
                result = in(reg) result.as_mut_ptr(),
                out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
                out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
                options(nostack),
            );
        }
        result
    }};
}

pub(crate) fn sum(left: &[u8; 16], right: &[u8; 16]) -> [u8; 16] {
    x87!("faddp st(1), st", left, right)
}

pub(crate) fn product(left: &[u8; 16], right: &[u8; 16]) -> [u8; 16] {
    x87!("fmulp st(1), st", left, right)
}

pub(crate) fn difference(left: &[u8; 16], right: &[u8; 16]) -> [u8; 16] {
    x87!("fsubp st(1), st", left, right)
}

/// `None` if one of them is no number.
pub(crate) fn order(left: &[u8; 16], right: &[u8; 16]) -> Option<Ordering> {
    let (above, equal, unordered): (u8, u8, u8);
    // SAFETY: loads ten bytes from each of two operands of sixteen; the two values on the x87
    // stack are popped again.
    unsafe {
        std::arch::asm!(
            "fld tbyte ptr [{right}]",
            "fld tbyte ptr [{left}]",
            "fucomip st, st(1)",
            "fstp st(0)",
            "seta {above}",
            "sete {equal}",
            "setp {unordered}",
            left = in(reg) left.as_ptr(),
            right = in(reg) right.as_ptr(),
            above = out(reg_byte) above,
            equal = out(reg_byte) equal,
            unordered = out(reg_byte) unordered,
            out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
            out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
            options(nostack),
        );
    }
    match (unordered, equal, above) {
        (1, ..) => None,
        (_, 1, _) => Some(Ordering::Equal),
        (.., 1) => Some(Ordering::Greater),
        _ => Some(Ordering::Less),
    }
}
