package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"flow/builtins/hardware"
	"flow/builtins/machine"
	"flow/workflows/record"
)

func newDoctorCommand(a *app) *cobra.Command {
	var asJSON, restore bool
	var from roots
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Show the machine and what can be sampled on it",
		Long:  "Show what identifies this machine, which sensors can be sampled, and for the others why not and how to get them.",
		Args:  workflowArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if restore {
				return doctorRestore(cmd.Context(), a, from.proc, from.sys, asJSON)
			}
			m := machine.Identity(cmd.Context(), from.proc, from.sys)
			srcs := hardware.Open(hardware.Options{Proc: from.proc, Sys: from.sys, Now: machine.Monotonic, NVML: true})
			defer func() {
				for _, s := range srcs {
					_ = s.Close()
				}
			}()
			sensors := hardware.Sensors(srcs)
			if asJSON {
				return json.NewEncoder(a.stdout).Encode(struct {
					Machine record.Machine  `json:"machine"`
					Sensors []record.Sensor `json:"sensors"`
				}{m, sensors})
			}
			fmt.Fprintf(a.stdout, "machine %s (%s)\n", m.ID, m.Host)
			for _, k := range slices.Sorted(maps.Keys(m.Facts)) {
				fmt.Fprintf(a.stdout, "  %-14s %s\n", k, m.Facts[k])
			}
			t := table.NewWriter()
			t.SetStyle(table.StyleLight)
			t.AppendHeader(table.Row{"sensor", "unit", "source", "available"})
			for _, s := range sensors {
				says := "yes"
				if !s.Available {
					says = "no: " + s.Why
					if s.Fix != "" {
						says += "; " + s.Fix
					}
				}
				t.AppendRow(table.Row{s.Name, s.Unit, s.Source, says})
			}
			fmt.Fprintln(a.stdout, t.Render())
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	cmd.Flags().BoolVar(&restore, "restore", false, "put back host settings that a flow which is gone has left changed")
	from.add(cmd)
	return cmd
}
