package value

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"
)

// The texts that stand for quantities: "300ms", "1%", "512MiB". A unit is always written; parsing what the
// Format functions write gives the same value back, exactly.

// ParseDuration reads "300ms", "5s", "1m30s", "1.5h"; "0" needs no unit. Units: ns, us, ms, s, m, h.
func ParseDuration(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, fmt.Errorf(`got %q, want duration such as "300ms"`, s)
	}
	return d, nil
}

// FormatDuration writes a duration shortly: "5s", "1m30s", "2m" (not "2m0s").
func FormatDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// ParsePercent reads "1%", "-3%", "0.25%" and gives the ratio.
func ParsePercent(s string) (float64, error) {
	num, ok := strings.CutSuffix(s, "%")
	num = strings.TrimSuffix(num, " ") // "62.6 %", as it is printed in reports
	if ok && decimal(num) {
		// Shifting the decimal point in the text, not dividing, gives the ratio nearest to what was written.
		if r, err := strconv.ParseFloat(num+"e-2", 64); err == nil {
			return r, nil
		}
	}
	return 0, fmt.Errorf(`got %q, want percent such as "1%%"`, s)
}

// FormatPercent writes a ratio as percent with as many digits as it has: 0.01 is "1%".
func FormatPercent(ratio float64) string {
	if ratio == 0 {
		return "0%"
	}
	mantissa, exp, _ := strings.Cut(strconv.FormatFloat(ratio, 'e', -1, 64), "e")
	e, err := strconv.Atoi(exp)
	if err != nil { // not finite
		return strconv.FormatFloat(ratio, 'g', -1, 64)
	}
	sign := ""
	if rest, ok := strings.CutPrefix(mantissa, "-"); ok {
		sign, mantissa = "-", rest
	}
	digits := strings.Replace(mantissa, ".", "", 1)
	point := 1 + e + 2 // of the digits are before the point
	if point <= 0 {
		digits, point = strings.Repeat("0", 1-point)+digits, 1
	}
	if point >= len(digits) {
		return sign + digits + strings.Repeat("0", point-len(digits)) + "%"
	}
	return sign + digits[:point] + "." + digits[point:] + "%"
}

type unit struct {
	name  string
	bytes int64
}

// units of sizes, the largest first. A bare K, M or G is refused: it means both.
func units() []unit {
	return []unit{
		{"TiB", 1 << 40}, {"TB", 1e12}, {"GiB", 1 << 30}, {"GB", 1e9}, {"MiB", 1 << 20}, {"MB", 1e6},
		{"KiB", 1 << 10}, {"kB", 1e3}, {"KB", 1e3}, {"B", 1},
	}
}

// ParseSize reads "512MiB", "1.5GiB", "4GB", "100B" and gives whole bytes.
func ParseSize(s string) (int64, error) {
	fail := func() (int64, error) { return 0, fmt.Errorf(`got %q, want size such as "512MiB" or "4GB"`, s) }
	for _, u := range units() {
		num, ok := strings.CutSuffix(s, u.name)
		if !ok {
			continue
		}
		num = strings.TrimSuffix(num, " ")
		if len(num) > 40 || !decimal(num) || num[0] == '-' || num[0] == '+' {
			return fail()
		}
		r, ok := new(big.Rat).SetString(num)
		if !ok {
			return fail()
		}
		r.Mul(r, new(big.Rat).SetInt64(u.bytes))
		if !r.IsInt() || !r.Num().IsInt64() {
			return fail()
		}
		return r.Num().Int64(), nil
	}
	return fail()
}

// FormatSize writes bytes in the largest unit that gives a whole number: "512MiB", "4GB", "1000001B".
func FormatSize(bytes int64) string {
	for _, u := range units() {
		if bytes != 0 && bytes%u.bytes == 0 {
			return fmt.Sprintf("%d%s", bytes/u.bytes, u.name)
		}
	}
	return fmt.Sprintf("%dB", bytes)
}

// decimal reports whether s is digits with at most one point and a sign before them. strconv alone would
// also take "inf", "0x1p-2" and "1_000".
func decimal(s string) bool {
	s = strings.TrimPrefix(strings.TrimPrefix(s, "-"), "+")
	digits, points := 0, 0
	for _, c := range s {
		switch {
		case '0' <= c && c <= '9':
			digits++
		case c == '.':
			points++
		default:
			return false
		}
	}
	return digits > 0 && points <= 1
}

// Fixed writes x with so many digits after the point, never "-0.00".
func Fixed(x float64, digits int) string {
	s := strconv.FormatFloat(x, 'f', max(digits, 0), 64)
	if rest, ok := strings.CutPrefix(s, "-"); ok && strings.Trim(rest, "0.") == "" {
		return rest
	}
	return s
}

// Round is x with so many digits after the point, as Fixed writes it.
func Round(x float64, digits int) float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return x
	}
	if digits < 0 {
		scale := math.Pow10(-digits)
		return math.RoundToEven(x/scale) * scale
	}
	r, err := strconv.ParseFloat(Fixed(x, digits), 64)
	if err != nil {
		return x
	}
	return r
}
