package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"flow/builtins/hardware"
	"flow/builtins/machine"
	"flow/workflows/record"
)

// doctorPause is how far apart the two readings are that a rate is made of.
const doctorPause = 300 * time.Millisecond

func newDoctorCommand(a *app) *cobra.Command {
	var asJSON, restore, giveUp, sensors bool
	var from roots
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Show the machine, what can be sampled on it, and what would disturb a measurement now",
		Long: `Show what identifies this machine, what would disturb a measurement now and how long to wait, which sensors
can be sampled, and for the others why not and how to get them. "flow doc machine" says what each is.`,
		Args: workflowArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if giveUp && !restore {
				return usage("flow doctor", "got --give-up without --restore", "flow doctor --restore --give-up")
			}
			if restore {
				return doctorRestore(cmd.Context(), a, from.proc, from.sys, asJSON, giveUp)
			}
			// Another root is another machine's: its GPUs are not those of the library here.
			here := from.proc == "/proc" && from.sys == "/sys"
			o := hardware.Options{Proc: from.proc, Sys: from.sys, Now: machine.Monotonic, NVML: here, RAPL: from.rapl}
			c := examine(cmd.Context(), o, machine.Identity(cmd.Context(), from.proc, from.sys), func(ctx context.Context) {
				if !here {
					return
				}
				t := time.NewTimer(doctorPause)
				defer t.Stop()
				select {
				case <-t.C:
				case <-ctx.Done():
				}
			})
			left, err := leftRunning()
			if err != nil {
				return err
			}
			for _, l := range left {
				x := cond{Name: "left running", State: condDisturbs, Observed: l.words, Fix: l.fix}
				if l.odd {
					x.Name, x.State = "records", condNote
				}
				c.Conditions = append(c.Conditions, x)
			}
			switch {
			case asJSON:
				return json.NewEncoder(a.stdout).Encode(c)
			case sensors:
				sensorTable(a.stdout, c.Sensors)
			default:
				c.page(a.stdout)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	cmd.Flags().BoolVar(&sensors, "sensors", false, "list every sensor, with its source")
	cmd.Flags().BoolVar(&restore, "restore", false, "put back host settings that a flow which is gone has left changed")
	cmd.Flags().BoolVar(&giveUp, "give-up", false, "with --restore: take off the record what cannot be put back, and name it")
	from.add(cmd)
	return cmd
}

// sensorTable is every sensor on a line.
func sensorTable(w io.Writer, sensors []record.Sensor) {
	t := columns{head: []string{"sensor", "unit", "available", "source", "why not"}, below: []int{4}}
	last := "" // said once for the sensors in a row that share it
	for _, s := range sensors {
		says, why := "yes", ""
		if !s.Available {
			says, why = "no", s.Why
			if s.Fix != "" {
				why += "; " + s.Fix
			}
		}
		if why != "" && why == last {
			says, why = "no, as above", ""
		} else {
			last = why
		}
		t.add(s.Name, s.Unit, says, s.Source, why)
	}
	fmt.Fprintln(w, strings.Join(t.lines(widthOf(w)), "\n"))
}
