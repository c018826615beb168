// Package library holds the @flow// files: engines, gates, stops, orders, screens, selection rules and
// bodies written in Starlark.
//
// Its opinion: primitives are Go, experiments are Starlark. Every function here is short, returns plain
// values made by the builtins, and can be read and copied into a workflow; nothing in it is known to the
// runner. Neighbours: builtins is the language these files are written in, starlark/script loads them
// as @flow//NAME.
package library

import "embed"

// FS is the root of @flow//: "gates.star" is loaded as "@flow//gates.star".
//
//go:embed *.star engines/*.star gates/*.star
var FS embed.FS
