package main

// The names of environment variables in the bytes of a program. Whether a name is read with getenv cannot be
// seen without running the program, so a name is a guess: it is shown as likely where something else speaks
// for it (the help text, the family, a word that switches have), and kept apart otherwise. Programs are full
// of other names in capitals: operations, enumerations, processor features.

import (
	"bytes"
	"debug/elf"
	"debug/macho"
	"os"
	"regexp"
	"slices"
	"strings"
)

// envName is the whole of a literal that looks like an environment variable: capitals with an underscore, as
// programs name their own. The prefixes of systems and libraries that every program has are left out.
var (
	envName   = regexp.MustCompile(`^[A-Z][A-Z0-9]{1,15}(?:_[A-Z0-9]{1,32}){1,8}$`)
	envOther  = regexp.MustCompile(`^(?:LC|LANG|XDG|SSL|GLIBC|GLIBCXX|CXXABI|GCC|LIBC|LD|MALLOC|TZ|POSIX|ISO|SIG|ERR|EVP|X509|PKCS|TLS|HTTP|AES|SHA|RSA|ASN1|BIO|DSA|ECDSA|OSSL|SSL3|SSL2|TLS1|UTF|IEEE|AVX|SSE|STB|STV|STT|SHT|SHF|DW|DT|PT|EF|EM|NT|O|S|E|F|AF|SO|IP|IPPROTO|TCP|UDP|AI|EAI|NI|MSG|SHUT|SOCK|PF|IFF|CLOCK|FUTEX|PROT|MAP|MADV|PR|RLIMIT|SYS)_`)
	envInText = regexp.MustCompile(`\b[A-Z][A-Z0-9]{1,15}(?:_[A-Z0-9]{1,32}){1,8}\b`)
)

// envFamilies are the prefixes of engines and of the libraries that they stand on.
var envFamilies = []string{"LLAMA", "GGML", "HF", "HUGGINGFACE", "DS4", "ARGODRIVE", "STRATA", "VLLM", "SGLANG", "SGL", "OLLAMA", "CUDA", "CUBLAS", "CUDNN", "NCCL",
	"HIP", "ROCR", "HSA", "RCCL", "OMP", "GOMP", "KMP", "MKL", "OPENBLAS", "BLIS", "TORCH", "PYTORCH", "TRITON", "FLASHINFER", "GODEBUG"}

// envSwitches are words that names of variables have after their program's prefix, and names of operations
// seldom; of a size they are the last.
var envSwitches = []string{"ALLOW", "CACHE", "COLOR", "COLORS", "CONFIG", "DEBUG", "DEVICE", "DEVICES", "DIR", "DISABLE", "ENABLE", "ENDPOINT", "FILE", "FORCE", "HOME", "HOST", "KEY", "LEVEL",
	"LIMIT", "LOG", "NO", "PATH", "PORT", "SEED", "SKIP", "SLOTS", "STYLE", "THREADS", "TIMEOUT", "TMPDIR", "TOKEN", "TRACE", "USE", "VERBOSE", "VISIBLE"}

// envLibc are names that the C library and its loader read: every program that holds them has them all, and none is
// a lever of its own.
var envLibc = []string{"GCONV_PATH", "GETCONF_DIR", "HESIOD_CONFIG", "NIS_PATH", "ORIGIN_PATH", "RESOLV_HOST_CONF", "RESOLV_MULTI", "RESOLV_REORDER",
	"RESOLV_ADD_TRIM_DOMAINS", "RESOLV_OVERRIDE_TRIM_DOMAINS", "RES_OPTIONS", "SEV_LEVEL", "POSIXLY_CORRECT"}

// ofLibc: the C library or its loader reads a variable, whatever the program.
func ofLibc(name string) bool {
	return slices.Contains(envLibc, name) || slices.Contains([]string{"LANG", "LANGUAGE", "TZ", "TMPDIR", "NLSPATH"}, name) ||
		slices.ContainsFunc([]string{"LD_", "LC_", "MALLOC_", "GLIBC_"}, func(family string) bool { return strings.HasPrefix(name, family) })
}

// ownFamilies is the family that a program's name stands for: XZ of xz, LLAMA of llama-server; none for a name of one letter.
func ownFamilies(program string) []string {
	name := strings.ToUpper(strings.TrimSuffix(program, ".exe"))
	first := name
	if i := strings.IndexFunc(name, func(r rune) bool { return (r < 'A' || r > 'Z') && (r < '0' || r > '9') }); i >= 0 {
		first = name[:i]
	}
	if len(first) < 2 {
		return nil
	}
	return []string{first}
}

// likelyEnv parts names into those for which something speaks, and the rest.
func likelyEnv(names []string, help, program string) (likely, other []string) {
	families := append(slices.Clone(envFamilies), ownFamilies(program)...)
	named := []string{"NO_COLOR"}
	for line := range strings.Lines(help) {
		if strings.Contains(strings.ToLower(line), "env") { // `(env: LLAMA_ARG_THREADS)`, `environment: X_Y`
			for _, n := range envInText.FindAllString(line, -1) {
				named = append(named, n)
				family, _, _ := strings.Cut(n, "_")
				families = append(families, family)
			}
		}
	}
	for _, n := range names {
		if slices.Contains(envLibc, n) {
			continue
		}
		parts := strings.Split(n, "_")
		last := parts[len(parts)-1]
		if slices.Contains(named, n) || slices.Contains(families, parts[0]) || last == "MAX" || last == "MIN" ||
			slices.ContainsFunc(parts[1:], func(p string) bool { return slices.Contains(envSwitches, p) }) {
			likely = append(likely, n)
		} else {
			other = append(other, n)
		}
	}
	return likely, other
}

// envNamesOf finds the names in a program or library: in its data alone where its format says what is code,
// because compilers put pieces of literals into instructions.
func envNamesOf(path string) []string {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	var data []byte
	add := func(part []byte, err error) {
		if err == nil {
			data = append(append(data, part...), 0)
		}
	}
	if f, err := elf.NewFile(bytes.NewReader(b)); err == nil {
		for _, s := range f.Sections {
			if s.Type == elf.SHT_PROGBITS && s.Flags&elf.SHF_ALLOC != 0 && s.Flags&elf.SHF_EXECINSTR == 0 {
				add(s.Data())
			}
		}
		add(bytes.Join(goLiterals(f), []byte{0}), nil)
	} else if f, err := macho.NewFile(bytes.NewReader(b)); err == nil {
		for _, s := range f.Sections {
			if s.Name != "__text" && s.Name != "__stubs" {
				add(s.Data())
			}
		}
	}
	if len(data) == 0 {
		data = b // of another format, or a script
	}
	return envNames(data)
}

// envNames finds the names in the bytes of a program: literals between bytes that are no text.
func envNames(b []byte) []string {
	found := map[string]bool{}
	from := -1
	end := func(to int) {
		if n := to - from; from >= 0 && n >= 5 && n <= 80 {
			if s := b[from:to]; envName.Match(s) && !envOther.Match(s) {
				found[string(s)] = true
			}
		}
		from = -1
	}
	for i, c := range b {
		text := c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_'
		switch {
		case text && from < 0 && (i == 0 || b[i-1] < ' ' || b[i-1] > '~'):
			from = i
		case !text && from >= 0:
			if c < ' ' || c > '~' {
				end(i)
			} else {
				from = -1 // a part of a longer text
			}
		}
	}
	end(len(b))
	out := make([]string, 0, len(found))
	for n := range found {
		out = append(out, n)
	}
	slices.Sort(out)
	return out
}
