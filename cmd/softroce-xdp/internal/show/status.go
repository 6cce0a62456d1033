// SPDX-License-Identifier: Apache-2.0

package show

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/softroce/softroce-xdp/cmd/internal/cli"
	"github.com/softroce/softroce-xdp/cmd/internal/host"
	"github.com/softroce/softroce-xdp/cmd/internal/view"
	"github.com/softroce/softroce-xdp/loader"
	"github.com/softroce/softroce-xdp/loader/device"
	"github.com/softroce/softroce-xdp/loader/inspect"
	"github.com/softroce/softroce-xdp/rocev2/rdma/proto"
)

func newStatus(a *host.App) *cobra.Command {
	var asJSON, check bool
	cmd := &cobra.Command{
		Use:   "status [IF...]",
		Short: "Show what is attached, its state and its problems",
		Long: `Status shows each attached interface: mode, hooks, pacer, rate, agent, and the
counters that matter. Lines that begin with ! are problems, with what to do. With
--check it ends with exit code 3 if there is a problem, if an interface that was named
is not attached, or if none is attached.`,
		ValidArgsFunction: a.CompleteAttached,
		RunE: func(cmd *cobra.Command, ifs []string) error {
			ifs, err := a.RealNames(ifs)
			if err != nil {
				return err
			}
			named := len(ifs) > 0
			var errs []error
			if !named {
				if ifs, err = allAttached(a); err != nil {
					return err
				}
				strays := loader.Strays(a.Options())
				if len(ifs)+len(strays) == 0 && !asJSON {
					fmt.Fprintln(cmd.OutOrStdout(), "no interface is attached")
				}
				for _, stray := range strays {
					if !asJSON {
						fmt.Fprintln(cmd.OutOrStdout(), stray)
					}
					if check && !errors.Is(stray, loader.ErrOtherRunDir) {
						errs = append(errs, stray)
					}
				}
			}
			all, failed := readStatuses(a, ifs, named)
			for _, f := range failed {
				errs = append(errs, f.err)
			}
			if asJSON {
				errs = append(errs, cli.WriteJSON(cmd.OutOrStdout(), all))
			} else {
				for _, s := range all {
					s.Write(cmd.OutOrStdout())
				}
			}
			if check {
				return healthy(all, errors.Join(errs...))
			}
			return errors.Join(errs...)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON: a list with one element an interface")
	cmd.Flags().BoolVar(&check, "check", false, "exit with code 3 unless something is attached and all of it is without problems")
	return cmd
}

// healthy returns the result of status --check, nil if all is well. err has the interfaces
// whose status could not be read.
func healthy(all []*view.Status, err error) error {
	here, problems := 0, 0
	for _, s := range all {
		if !s.OtherNamespace {
			here++
		}
		problems += len(s.Problems)
	}
	switch {
	case errors.Is(err, loader.ErrNotAttached), errors.Is(err, loader.ErrStray), errors.Is(err, loader.ErrOtherRunDir):
		return cli.No(err)
	case err != nil:
		return err
	case here == 0 && len(all) > 0:
		return cli.AnswerNo("no interface of this network namespace is attached")
	case here == 0:
		return cli.AnswerNo("no interface is attached")
	case problems == 1:
		return cli.AnswerNo("1 problem")
	case problems > 1:
		return cli.AnswerNo("%d problems", problems)
	}
	return nil
}

// allAttached returns the names of the attached interfaces, those of other network namespaces last.
func allAttached(a *host.App) ([]string, error) {
	ours, others, err := loader.Attached(a.Options())
	return slices.Concat(ours, others), err
}

// unread is an interface whose status could not be read.
type unread struct {
	name string
	err  error
}

// readStatuses reads the status of interfaces. If the user named them, another network namespace is an error.
func readStatuses(a *host.App, ifs []string, named bool) (all []*view.Status, failed []unread) {
	all = []*view.Status{}
	for _, name := range ifs {
		s, err := readStatus(a, name)
		if err == nil && named && s.OtherNamespace {
			err = loader.CheckHere(name, a.Options())
		}
		if err != nil {
			failed = append(failed, unread{name, err})
			continue
		}
		all = append(all, s)
	}
	return all, failed
}

// nicPatience is how long status waits for the device server.
const nicPatience = 5 * time.Second

func readStatus(a *host.App, name string) (*view.Status, error) {
	att, err := loader.Open(name, a.Options())
	if err != nil {
		return nil, err
	}
	defer att.Close()
	in := view.StatusInput{
		State: att.State, Version: cli.Version, Now: time.Now(), MonoNs: loader.Monotonic(),
		IfaceAlive: att.Alive() || att.Here(), NameNow: att.NameNow(), AgentAlive: loader.HasAgent(name, a.Options()),
	}
	if in.Config, err = att.Config(); err != nil {
		return nil, err
	}
	if in.Rows, err = att.Rows(); err != nil {
		return nil, err
	}
	if in.Limits, err = att.Limits(); err != nil {
		return nil, err
	}
	if in.Stats, err = att.Stats(); err != nil {
		return nil, err
	}
	if att.State.NIC != nil && in.AgentAlive {
		ctx, cancel := context.WithTimeout(context.Background(), nicPatience)
		defer cancel()
		st, err := device.ReadStatus(ctx, proto.SocketPath(a.RunDir, name))
		in.NIC, in.NICError = &st, err
	}
	if att.Here() {
		in.HiddenTags = loader.HiddenTags(cmp.Or(in.NameNow, name))
		if in.Findings, err = inspect.Inspect(att, cmp.Or(in.NameNow, name)); err != nil {
			return nil, err
		}
	}
	in.Report = inspect.ReadReport(a.RunDir, name)
	s := view.StatusOf(in)
	if err := loader.CheckHere(name, a.Options()); err != nil {
		s.Elsewhere(err.Error())
	}
	return s, nil
}
