//! BPF instructions, one by one, and jumps to labels.
//!
//! Source: `linux/bpf.h`, Documentation/bpf/standardization/instruction-set.rst.

/// One instruction: `struct bpf_insn` of `linux/bpf.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Instruction {
    code: u8,
    /// Destination register in the low four bits, source register in the high four.
    registers: u8,
    offset: i16,
    immediate: i32,
}

const fn instruction(code: u8, dst: u8, src: u8, offset: i16, immediate: i32) -> Instruction {
    Instruction { code, registers: src << 4 | dst, offset, immediate }
}

/// The number of bytes that a load reads: BPF_LDX | BPF_MEM with each size.
#[derive(Clone, Copy)]
#[repr(u8)]
pub(super) enum Load {
    Byte = 0x71,
    Half = 0x69,
    Word = 0x61,
    Double = 0x79,
}

/// The number of bytes that a store writes: BPF_STX | BPF_MEM with each size.
#[derive(Clone, Copy)]
#[repr(u8)]
pub(super) enum Store {
    Half = 0x6b,
    Word = 0x63,
    Double = 0x7b,
}

/// The condition of a jump: BPF_JMP | BPF_K. Exceptions: [`When::Above`] and [`When::Differs`] are BPF_JMP | BPF_X and
/// compare with a register, and [`When::WordDiffers`] is BPF_JMP32 | BPF_K (Linux 5.1).
#[derive(Clone, Copy)]
#[repr(u8)]
pub(super) enum When {
    Equal = 0x15,
    NotEqual = 0x55,
    /// At most this value, unsigned.
    AtMost = 0xb5,
    /// Any of these bits is set.
    AnyOf = 0x45,
    /// More than that register, unsigned.
    Above = 0x2d,
    /// Different from that register.
    Differs = 0x5d,
    /// The 32 bits differ. Other comparisons extend the sign of a value.
    WordDiffers = 0x56,
}

/// A target of a jump.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Label(usize);

/// Instructions in the order in which they were added. Every jump goes forward. Instructions that no path reaches are
/// left out, because the verifier refuses programs with such instructions.
pub(super) struct Assembler {
    code: Vec<Instruction>,
    /// Whether a path reaches this point.
    reached: bool,
    /// The position of each label, once it is placed.
    places: Vec<Option<usize>>,
    /// The instructions that jump, and their targets.
    jumps: Vec<(usize, Label)>,
}

impl Assembler {
    pub(super) fn new() -> Assembler {
        Assembler { code: Vec::new(), reached: true, places: Vec::new(), jumps: Vec::new() }
    }

    /// Makes a label that is not placed yet.
    pub(super) fn label(&mut self) -> Label {
        self.places.push(None);
        Label(self.places.len() - 1)
    }

    /// Places `label` at the next instruction.
    pub(super) fn here(&mut self, label: Label) {
        self.places[label.0] = Some(self.code.len());
        self.reached |= self.jumps.iter().any(|(_, to)| *to == label);
    }

    fn push(&mut self, instruction: Instruction) {
        if self.reached {
            self.code.push(instruction);
        }
    }

    fn jump(&mut self, instruction: Instruction, label: Label) {
        if self.reached {
            self.jumps.push((self.code.len(), label));
            self.code.push(instruction);
        }
    }

    /// `dst = *(size *)(src + offset)`
    pub(super) fn load(&mut self, size: Load, dst: u8, src: u8, offset: i16) {
        self.push(instruction(size as u8, dst, src, offset, 0));
    }

    /// `*(size *)(dst + offset) = src`
    pub(super) fn store(&mut self, size: Store, dst: u8, offset: i16, src: u8) {
        self.push(instruction(size as u8, dst, src, offset, 0));
    }

    /// `lock *(u64 *)(dst + offset) += src`: BPF_STX | BPF_ATOMIC | BPF_DW, with BPF_ADD.
    pub(super) fn add_to(&mut self, dst: u8, offset: i16, src: u8) {
        self.push(instruction(0xdb, dst, src, offset, 0));
    }

    /// `dst = src`: BPF_ALU64 | BPF_MOV | BPF_X.
    pub(super) fn copy(&mut self, dst: u8, src: u8) {
        self.push(instruction(0xbf, dst, src, 0, 0));
    }

    /// `dst = value`: BPF_ALU64 | BPF_MOV | BPF_K.
    pub(super) fn set(&mut self, dst: u8, value: i32) {
        self.push(instruction(0xb7, dst, 0, 0, value));
    }

    /// `dst += value`: BPF_ALU64 | BPF_ADD | BPF_K.
    pub(super) fn add(&mut self, dst: u8, value: i32) {
        self.push(instruction(0x07, dst, 0, 0, value));
    }

    /// `dst &= value`: BPF_ALU64 | BPF_AND | BPF_K.
    pub(super) fn and(&mut self, dst: u8, value: i32) {
        self.push(instruction(0x57, dst, 0, 0, value));
    }

    /// `dst = the map with this file descriptor`: BPF_LD | BPF_IMM | BPF_DW, two slots long; source register 1
    /// (BPF_PSEUDO_MAP_FD) says that it is a map.
    pub(super) fn set_map(&mut self, dst: u8, map: i32) {
        self.push(instruction(0x18, dst, 1, 0, map));
        self.push(instruction(0, 0, 0, 0, 0));
    }

    /// Calls the kernel's function of that number. Registers 1 to 5 are its arguments and are lost; register 0 is its
    /// result.
    pub(super) fn call(&mut self, function: i32) {
        self.push(instruction(0x85, 0, 0, 0, function));
    }

    /// Ends the program. Its result is the value of register 0.
    pub(super) fn exit(&mut self) {
        self.push(instruction(0x95, 0, 0, 0, 0));
        self.reached = false;
    }

    /// Jumps to `label`: BPF_JMP | BPF_JA.
    pub(super) fn go(&mut self, label: Label) {
        self.jump(instruction(0x05, 0, 0, 0, 0), label);
        self.reached = false;
    }

    /// Jumps to `label` if the comparison of register `dst` with `operand` is true. The operand is a value or a
    /// register's number.
    pub(super) fn go_when(&mut self, dst: u8, when: When, operand: i32, label: Label) {
        let jump = match when {
            When::Above | When::Differs => instruction(when as u8, dst, operand as u8, 0, 0),
            _ => instruction(when as u8, dst, 0, 0, operand),
        };
        self.jump(jump, label);
    }

    /// Returns the program. A jump to a label that is not placed, or that lies before the jump, goes nowhere: the
    /// verifier refuses it.
    pub(super) fn finish(mut self) -> Vec<Instruction> {
        for (at, label) in self.jumps {
            // Offsets count from the instruction after the jump.
            let distance = self.places[label.0].and_then(|place| place.checked_sub(at + 1));
            self.code[at].offset = distance.and_then(|distance| i16::try_from(distance).ok()).unwrap_or(-1);
        }
        self.code
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The eight bytes of each instruction.
    fn bytes(program: &[Instruction]) -> Vec<[u8; 8]> {
        let one = |i: &Instruction| {
            let ([o0, o1], [i0, i1, i2, i3]) = (i.offset.to_le_bytes(), i.immediate.to_le_bytes());
            [i.code, i.registers, o0, o1, i0, i1, i2, i3]
        };
        program.iter().map(one).collect()
    }

    #[test]
    fn instructions_are_laid_out_as_the_kernel_reads_them() {
        let mut a = Assembler::new();
        let (end, on) = (a.label(), a.label());
        a.load(Load::Word, 2, 1, 16);
        a.set_map(1, 0x0102);
        a.go_when(2, When::Above, 8, end);
        a.go_when(3, When::Equal, -2, end);
        a.go_when(3, When::AnyOf, 4, on);
        a.go(end);
        a.here(on);
        a.copy(6, 1);
        a.add(7, 4);
        a.set(3, 2);
        a.store(Store::Half, 10, -8, 3);
        a.and(3, 0xff);
        a.add_to(0, 8, 3);
        a.go_when(3, When::WordDiffers, -1, end);
        a.here(end);
        a.call(51);
        a.exit();
        let expected = [
            [0x61, 0x12, 16, 0, 0, 0, 0, 0],      // r2 = *(u32 *)(r1 + 16)
            [0x18, 0x11, 0, 0, 0x02, 0x01, 0, 0], // r1 = map fd 0x0102 ll
            [0, 0, 0, 0, 0, 0, 0, 0],
            [0x2d, 0x82, 10, 0, 0, 0, 0, 0],            // if r2 > r8 goto +10
            [0x15, 0x03, 9, 0, 0xfe, 0xff, 0xff, 0xff], // if r3 == -2 goto +9
            [0x45, 0x03, 1, 0, 4, 0, 0, 0],             // if r3 & 4 goto +1
            [0x05, 0x00, 7, 0, 0, 0, 0, 0],             // goto +7
            [0xbf, 0x16, 0, 0, 0, 0, 0, 0],             // r6 = r1
            [0x07, 0x07, 0, 0, 4, 0, 0, 0],             // r7 += 4
            [0xb7, 0x03, 0, 0, 2, 0, 0, 0],             // r3 = 2
            [0x6b, 0x3a, 0xf8, 0xff, 0, 0, 0, 0],       // *(u16 *)(r10 - 8) = r3
            [0x57, 0x03, 0, 0, 0xff, 0, 0, 0],          // r3 &= 255
            [0xdb, 0x30, 8, 0, 0, 0, 0, 0],             // lock *(u64 *)(r0 + 8) += r3
            [0x56, 0x03, 0, 0, 0xff, 0xff, 0xff, 0xff], // if w3 != -1 goto +0
            [0x85, 0x00, 0, 0, 51, 0, 0, 0],            // call 51
            [0x95, 0x00, 0, 0, 0, 0, 0, 0],             // exit
        ];
        assert_eq!(bytes(&a.finish()), expected);
        assert_eq!(size_of::<Instruction>(), 8);
    }

    #[test]
    fn what_no_path_leads_to_is_left_out() {
        let mut a = Assembler::new();
        let (end, never) = (a.label(), a.label());
        a.go(end);
        a.set_map(1, 7);
        a.go(never);
        a.here(never);
        a.exit();
        a.here(end);
        a.exit();
        assert_eq!(bytes(&a.finish()), [[0x05, 0, 0, 0, 0, 0, 0, 0], [0x95, 0, 0, 0, 0, 0, 0, 0]]);
    }

    #[test]
    fn a_jump_that_leads_nowhere_stays_an_endless_loop_which_the_verifier_refuses() {
        let mut a = Assembler::new();
        let (before, never) = (a.label(), a.label());
        a.here(before);
        a.go_when(0, When::Equal, 0, before);
        a.go(never);
        assert!(a.finish().iter().all(|jump| jump.offset == -1));
    }
}
