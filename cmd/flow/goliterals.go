package main

import (
	"debug/elf"
	"encoding/binary"
)

// goLiterals gives the texts of a Go program that may be names of variables. Go writes its literals one behind the
// other with no end between them, so the bytes alone do not say where a name stops; what loads one does, with an
// address and a length:
//
//	48 8d 05 <rel32>   lea  rax, [rip+rel32]
//	bb 07 00 00 00     mov  ebx, 7
//
// and so does the header of one in a table (8 bytes of address, 8 of length). Only the instructions of amd64 are
// read; of other processors the tables are.
func goLiterals(f *elf.File) [][]byte {
	text, ro := f.Section(".text"), f.Section(".rodata")
	if f.Section(".go.buildinfo") == nil || text == nil || ro == nil || f.ByteOrder != binary.LittleEndian || f.Class != elf.ELFCLASS64 {
		return nil
	}
	literals, err := ro.Data()
	if err != nil {
		return nil
	}
	var out [][]byte
	take := func(at, n uint64) {
		if at -= ro.Addr; n >= 5 && n <= 80 && at < uint64(len(literals)) && n <= uint64(len(literals))-at {
			if s := literals[at : at+n]; envName.Match(s) {
				out = append(out, s)
			}
		}
	}
	if code, err := text.Data(); err == nil && f.Machine == elf.EM_X86_64 {
		for i := 0; i+7 <= len(code); i++ {
			if code[i]&0xfb != 0x48 || code[i+1] != 0x8d || code[i+2]&0xc7 != 0x05 {
				continue
			}
			at := text.Addr + uint64(i+7) + uint64(int64(int32(binary.LittleEndian.Uint32(code[i+3:]))))
			if at-ro.Addr >= uint64(len(literals)) {
				continue
			}
			for j := i + 7; j < i+24 && j+5 <= len(code); j++ { // the length is loaded soon after
				if code[j]&0xf8 == 0xb8 {
					take(at, uint64(binary.LittleEndian.Uint32(code[j+1:])))
				}
			}
		}
	}
	for _, name := range []string{".rodata", ".data", ".noptrdata", ".data.rel.ro"} {
		s := f.Section(name)
		if s == nil {
			continue
		}
		data, err := s.Data()
		if err != nil {
			continue
		}
		for i := int(-s.Addr & 7); i+16 <= len(data); i += 8 {
			if at := binary.LittleEndian.Uint64(data[i:]); at-ro.Addr < uint64(len(literals)) {
				take(at, binary.LittleEndian.Uint64(data[i+8:]))
			}
		}
	}
	return out
}
