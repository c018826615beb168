package value_test

import (
	"errors"
	"io/fs"
	"math"
	"math/big"
	"os"
	"reflect"
	"testing"
	"time"

	"flow/starlark/value"

	"go.starlark.net/starlark"
)

func dir(name string) fs.FS { return os.DirFS(name) }

func TestParseDuration(t *testing.T) {
	for in, want := range map[string]time.Duration{
		"300ms": 300 * time.Millisecond, "5s": 5 * time.Second, "2m": 2 * time.Minute, "1m30s": 90 * time.Second, "1.5h": 90 * time.Minute,
		"0": 0, "-5s": -5 * time.Second, "10us": 10 * time.Microsecond, "10µs": 10 * time.Microsecond, "7ns": 7,
	} {
		if got, err := value.ParseDuration(in); err != nil || got != want {
			t.Errorf("%q: %v, %v, want %v", in, got, err, want)
		}
	}
	for _, bad := range []string{"", "5", "5 s", "s", "5parsecs", "1d", "300000000h", "5s5", "inf"} {
		if got, err := value.ParseDuration(bad); err == nil {
			t.Errorf("%q is %v", bad, got)
		}
	}
	for d, want := range map[time.Duration]string{90 * time.Second: "1m30s", 2 * time.Minute: "2m", time.Hour: "1h", time.Hour + time.Second: "1h0m1s", 0: "0s", 1500 * time.Millisecond: "1.5s", 10 * time.Minute: "10m"} {
		if got := value.FormatDuration(d); got != want {
			t.Errorf("%d: %q, want %q", d, got, want)
		}
	}
}

func TestParsePercent(t *testing.T) {
	for in, want := range map[string]float64{"1%": 0.01, "-3%": -0.03, "0.5%": 0.005, "+2%": 0.02, "62.6 %": 0.626, "0%": 0, "100%": 1, ".7%": 0.007, "7.%": 0.07, "29%": 0.29} {
		if got, err := value.ParsePercent(in); err != nil || got != want {
			t.Errorf("%q: %v, %v, want %v", in, got, err, want)
		}
	}
	for _, bad := range []string{"", "%", "1", "1%%", "1e2%", "inf%", "nan%", "0x1%", "1_0%", "--1%", "1 2%", "1.2.3%", "% 1", "  1%", "1  %"} {
		if got, err := value.ParsePercent(bad); err == nil {
			t.Errorf("%q is %v", bad, got)
		}
	}
	for ratio, want := range map[float64]string{0.01: "1%", -0.03: "-3%", 0.005: "0.5%", 1: "100%", 0.0001234: "0.01234%", 12: "1200%", 0: "0%"} {
		if got := value.FormatPercent(ratio); got != want {
			t.Errorf("%v: %q, want %q", ratio, got, want)
		}
	}
}

func TestParseSize(t *testing.T) {
	for in, want := range map[string]int64{"512MiB": 512 << 20, "4GB": 4e9, "1.5GiB": 3 << 29, "100B": 100, "0B": 0, "0.3GB": 3e8, "1kB": 1000, "1KB": 1000, "1KiB": 1024, "2 TiB": 2 << 40} {
		if got, err := value.ParseSize(in); err != nil || got != want {
			t.Errorf("%q: %v, %v, want %v", in, got, err, want)
		}
	}
	for _, bad := range []string{"", "B", "5", "4G", "4 gb", "-1B", "+1B", "0.5B", "1e3B", "9000000TiB", "1/2MiB", "0x1B", ".B", "MiB"} {
		if got, err := value.ParseSize(bad); err == nil {
			t.Errorf("%q is %v", bad, got)
		}
	}
	for n, want := range map[int64]string{512 << 20: "512MiB", 4e9: "4GB", 1000001: "1000001B", 0: "0B", 1024: "1KiB", 1000: "1kB"} {
		if got := value.FormatSize(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

func FuzzParseDuration(f *testing.F) {
	for _, s := range []string{"300ms", "1m30s", "-1.5h", "0", "5", "9223372036854775807ns"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, err := value.ParseDuration(s)
		if err != nil {
			return
		}
		if again, err := value.ParseDuration(value.FormatDuration(d)); err != nil || again != d {
			t.Errorf("%q is %d, formatted %q, which is %d, %v", s, d, value.FormatDuration(d), again, err)
		}
	})
}

func FuzzParsePercent(f *testing.F) {
	for _, s := range []string{"1%", "-3%", "0.000000001%", "62.6 %", ".%", "123456789012345678901234567890%"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := value.ParsePercent(s)
		if err != nil {
			return
		}
		if math.IsNaN(r) || math.IsInf(r, 0) {
			t.Fatalf("%q is %v", s, r)
		}
		if again, err := value.ParsePercent(value.FormatPercent(r)); err != nil || again != r {
			t.Errorf("%q is %v, formatted %q, which is %v, %v", s, r, value.FormatPercent(r), again, err)
		}
	})
}

func FuzzParseSize(f *testing.F) {
	for _, s := range []string{"512MiB", "4GB", "1.5GiB", "0B", "9223372036854775807B", "4G"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, err := value.ParseSize(s)
		if err != nil {
			return
		}
		if n < 0 {
			t.Fatalf("%q is %d", s, n)
		}
		if again, err := value.ParseSize(value.FormatSize(n)); err != nil || again != n {
			t.Errorf("%q is %d, formatted %q, which is %d, %v", s, n, value.FormatSize(n), again, err)
		}
	})
}

func TestFixed(t *testing.T) {
	for _, c := range []struct {
		x      float64
		digits int
		want   string
	}{
		{1.005, 2, "1.00"}, // the double is below 1.005
		{2.5, 0, "2"}, {3.5, 0, "4"}, {-0.001, 2, "0.00"}, {-0.006, 2, "-0.01"}, {1e21, 1, "1000000000000000000000.0"}, {0.1, 3, "0.100"}, {1, -3, "1"},
	} {
		if got := value.Fixed(c.x, c.digits); got != c.want {
			t.Errorf("Fixed(%v, %d) = %s, want %s", c.x, c.digits, got, c.want)
		}
	}
	if value.Round(2.675, 2) != 2.67 || value.Round(1234, -2) != 1200 || value.Round(0.1+0.2, 1) != 0.3 || !math.IsInf(value.Round(math.Inf(1), 2), 1) {
		t.Error("Round")
	}
}

func TestFromGo(t *testing.T) {
	f, s := 0.5, "x"
	type name string
	for _, c := range []struct {
		in   any
		want string
	}{
		{nil, "None"}, {(*float64)(nil), "None"}, {&f, "0.5"}, {(*int)(nil), "None"}, {&s, `"x"`}, {name("n"), `"n"`}, {3, "3"}, {uint64(math.MaxUint64), "18446744073709551615"},
		{true, "True"}, {2.0, "2.0"}, {float32(0.5), "0.5"}, {[]any{1, nil, "a"}, `[1, None, "a"]`}, {[]string(nil), "[]"}, {[]float64{1}, "[1.0]"},
		{map[string]any{"b": 1, "a": []int{2}, "c": nil}, `{"a": [2], "b": 1, "c": None}`}, {map[name]string{"z": "1", "y": "2"}, `{"y": "2", "z": "1"}`},
		{90 * time.Second, "1m30s"}, {[]byte("raw"), `"raw"`}, {starlark.MakeInt(7), "7"}, {(*value.Struct)(nil), "None"},
	} {
		v, err := value.FromGo(c.in)
		if err != nil || v.String() != c.want {
			t.Errorf("FromGo(%#v) = %v, %v, want %s", c.in, v, err, c.want)
		}
	}
	type cyclic []any
	loop := cyclic{nil}
	loop[0] = loop
	for _, bad := range []any{math.NaN(), math.Inf(-1), map[string]float64{"x": math.NaN()}, []any{struct{}{}}, make(chan int), map[int]string{1: "x"}, loop} {
		if v, err := value.FromGo(bad); err == nil {
			t.Errorf("FromGo(%T) = %v", bad, v)
		}
	}
}

func TestToGoAndBack(t *testing.T) {
	in := map[string]any{"a": int64(1), "b": []any{nil, true, 0.5, "x"}, "c": map[string]any{}, "d": new(big.Int).Lsh(big.NewInt(1), 70)}
	v, err := value.FromGo(map[string]any{"a": 1, "b": in["b"], "c": in["c"], "d": starlark.MakeBigInt(in["d"].(*big.Int))})
	if err != nil {
		t.Fatal(err)
	}
	out, err := value.ToGo(v)
	if err != nil || !reflect.DeepEqual(in, out) {
		t.Errorf("got %#v, %v", out, err)
	}
	for _, bad := range []starlark.Value{starlark.Bytes("x"), starlark.Float(math.Inf(1)), starlark.Universe["len"]} {
		if out, err := value.ToGo(bad); err == nil {
			t.Errorf("ToGo(%v) = %v", bad, out)
		}
	}
	if _, err := value.CanonicalJSON(struct{}{}); err == nil {
		t.Error("a struct has JSON")
	}
}

func TestTableRefuses(t *testing.T) {
	if _, err := value.NewTable("row", []string{"a", "b", "a"}, nil); err == nil {
		t.Error("two columns of one name")
	}
	if _, err := value.NewTable("row", []string{"a"}, [][]starlark.Value{{}}); err == nil {
		t.Error("a row too short")
	}
	_, err := value.TableFromGo("row", []string{"a", "x"}, [][]any{{1, math.NaN()}})
	if err == nil || err.Error() != "row 0, column x: got NaN, want finite number" {
		t.Error(err)
	}
	empty, err := value.NewTable("row", nil, nil)
	if err != nil || empty.Truth() || empty.Len() != 0 {
		t.Error(empty, err)
	}
}

func TestMismatch(t *testing.T) {
	err := value.Strings(new([]string)).Unpack(starlark.NewList([]starlark.Value{starlark.None}))
	var m *value.Mismatch
	if !errors.As(err, &m) || m.At != "element 0" || m.Got != "None" || m.Want != "string" {
		t.Errorf("got %#v", err)
	}
}
