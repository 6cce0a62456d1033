// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"github.com/softroce/softroce-xdp/cc/fourcase"
	"github.com/softroce/softroce-xdp/cmd/internal/cli"
	"github.com/softroce/softroce-xdp/cmd/internal/host"
	"github.com/softroce/softroce-xdp/cmd/internal/policy"
	"github.com/softroce/softroce-xdp/loader"
	"github.com/softroce/softroce-xdp/loader/device/limits"
	"github.com/softroce/softroce-xdp/loader/nodefile"
	"github.com/softroce/softroce-xdp/loader/pacer"
)

// settings are the settings of attach for one interface.
type settings struct {
	loader.Options
	policy []string        // name=value; of one name the last applies
	given  map[string]bool // flags that the command line or the file names
	serve  bool            // the agent serves an engine: nic
	nic    loader.NIC
	limits limits.Limits // limits of that device
}

// flags returns the flags of attach, which are the keys of an interface in the configuration
// file too. It sets the defaults.
func (s *settings) flags() *pflag.FlagSet {
	s.Pacer, s.XDPMode, s.Egress, s.Clock = pacer.Auto, loader.XDPAuto, loader.EgressAuto, loader.ClockMonotonic
	s.MaxDests, s.HelloRate, s.Heartbeat = loader.DefaultMaxDests, loader.DefaultHelloRate, loader.DefaultHeartbeat

	f := pflag.NewFlagSet("attach", pflag.ContinueOnError)
	f.Var(newLinkRate(&s.RateBps), "rate", "rate of the link in bits per second, for example 25G (default: what the driver says)")
	f.Var(cli.WordVar(&s.Pacer, append([]pacer.Kind{pacer.Auto}, pacer.Kinds...)), "pacer", "auto, edt (fq), htb, police (drops) or none")
	f.Var(cli.WordVar(&s.XDPMode, loader.XDPModes), "xdp-mode", "auto, native or generic")
	f.Var(cli.WordVar(&s.Egress, loader.EgressHooks), "egress", "auto, tcx or clsact")
	f.Var(cli.WordVar(&s.Clock, loader.StampClocks), "clock", "clock of the stamps: monotonic, or tai for hosts synchronised by PTP")
	f.StringVar(&s.NodeFile, "nodes", "", "node file: number, addresses and location of the other machines (default: nodes.yaml next to the configuration file, if it exists)")
	f.Var(cli.CountVar(&s.Node, 0, 1<<20), "node", "number of this node, 0 for none")
	f.Var(cli.CountVar(&s.MaxDests, 1, 1<<24), "max-destinations", "size of the destination table")
	f.Var(cli.CountVar(&s.HelloRate, 1, 1<<24), "hello-rate", "HELLOs answered per second and CPU")
	f.Var(cli.SpanVar(&s.Heartbeat, 200*time.Millisecond, time.Hour), "heartbeat-timeout", "time without a heartbeat of the agent after which traffic is unpaced")
	f.Var(policy.ListVar(&s.policy), "policy", "a policy parameter, name=value; may be repeated (see policy set)")
	s.nicFlags(f)
	return f
}

// settingsFor returns the settings of one interface. In rising precedence: the flags' defaults,
// the file's defaults, its section for the interface, the command line.
func (a *attacher) settingsFor(name string, line *pflag.FlagSet) (*settings, error) {
	s := &settings{given: map[string]bool{}}
	flags := s.flags()
	if err := a.File.Interface(a.section(name), flags); err != nil {
		return nil, cli.PlainUsage(err)
	}
	var err error
	line.Visit(func(f *pflag.Flag) {
		mine := flags.Lookup(f.Name)
		if mine == nil {
			return
		}
		values := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		for _, v := range values {
			err = errors.Join(err, mine.Value.Set(v))
		}
		mine.Changed = true
	})
	flags.VisitAll(func(f *pflag.Flag) { s.given[f.Name] = f.Changed })
	if err != nil {
		return nil, err
	}
	s.PinRoot, s.RunDir, s.Version = a.PinRoot, a.RunDir, cli.Version
	if s.serve {
		s.NIC = s.stateNIC(flags)
	}
	if err := s.findNodes(filepath.Dir(a.File.Path)); err != nil {
		return nil, err
	}
	s.applyPolicy()
	return s, nil
}

// section returns the name under which the configuration file has an interface, which may be an
// altname.
func (a *attacher) section(name string) string {
	keys := a.File.Interfaces()
	if !slices.Contains(keys, name) {
		for _, k := range keys {
			if loader.RealName(k, a.Options()) == name {
				return k
			}
		}
	}
	return name
}

// findNodes finds and checks the node file before anything is attached.
func (s *settings) findNodes(dir string) error {
	named := s.NodeFile != ""
	if !named {
		s.NodeFile = filepath.Join(dir, "nodes.yaml")
	}
	path, err := filepath.Abs(s.NodeFile)
	if err != nil {
		return err
	}
	if _, err := nodefile.Read(path); err != nil {
		if errors.Is(err, fs.ErrNotExist) && !named {
			s.NodeFile = ""
			return nil
		}
		if errors.Is(err, os.ErrPermission) {
			return err
		}
		return cli.PlainUsage(err)
	}
	s.NodeFile = path
	return nil
}

// checkMinimums refuses a node file whose minimums exceed the rate of the link or
// priority-capacity.
func (s *settings) checkMinimums(name string) error {
	rate := s.RateBps
	if rate == 0 {
		iface, err := loader.FindIface(name)
		if err != nil {
			return nil // attach reports the error
		}
		if rate = iface.RateBps; rate == 0 {
			rate = loader.DefaultRateBps
		}
	}
	if err := minimumsFit(name, s.NodeFile, s.Node, s.Priority.Limit(rate)); err != nil {
		return cli.PlainUsage(err)
	}
	return nil
}

// minimumsFit refuses nodes whose minimums exceed the capacity that they share.
func minimumsFit(ifname, nodeFile string, node uint32, capacity uint64) error {
	if nodeFile == "" {
		return nil
	}
	nodes, err := nodefile.ReadAttached(nodeFile, ifname)
	if err != nil {
		return err
	}
	if err := nodes.CheckMinimums(node, capacity); err != nil {
		return fmt.Errorf("node file %s: %w", nodeFile, err)
	}
	return nil
}

// applyPolicy sets Options.Policy, Priority and WindowOff by the parameters that were given.
func (s *settings) applyPolicy() {
	list := s.policy
	if len(list) == 0 {
		return
	}
	apply := func(p *policy.Policy) {
		for _, x := range list {
			if err := policy.SetNamed(p, x); err != nil {
				panic(fmt.Sprintf("policy parameter %s was accepted before: %v", x, err))
			}
		}
	}
	s.Options.Policy = func(p *fourcase.Params) {
		all := policy.Policy{Params: *p}
		apply(&all)
		*p = all.Params
	}
	var all policy.Policy
	apply(&all)
	s.Options.Priority, s.Options.WindowOff = all.Priority, all.WindowOff
}

// configured lists the interfaces of the configuration file.
func configured(f *host.File) ([]string, error) {
	names := f.Interfaces()
	if len(names) == 0 {
		return nil, cli.Usagef("name the interfaces to attach, or list them under interfaces: in %s", f.Path)
	}
	return names, nil
}

// linkRateVar is a rate of a link, which has a lower bound.
type linkRateVar struct {
	pflag.Value
	dst *uint64
}

func newLinkRate(dst *uint64) pflag.Value { return linkRateVar{cli.RateVar(dst), dst} }

func (r linkRateVar) Set(s string) error {
	v, err := cli.ParseRate(s)
	if err == nil {
		err = loader.CheckRate(v)
	}
	if err == nil {
		*r.dst = v
	}
	return err
}
