// Command flow screens levers of LLM inference engines: it runs Starlark workflows that launch engines,
// measure them with and without a lever in an order that cancels drift, judge the conditions and keep
// what helped. One verb a file; this is the only package where the others meet.
package main

import "os"

func main() {
	os.Exit(main1(newApp(os.Stdin, os.Stdout, os.Stderr), os.Args[1:]))
}
