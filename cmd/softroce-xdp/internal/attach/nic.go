// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/netip"
	"os/user"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"github.com/softroce/softroce-xdp/cmd/internal/cli"
	"github.com/softroce/softroce-xdp/loader"
	"github.com/softroce/softroce-xdp/loader/agent"
	"github.com/softroce/softroce-xdp/loader/device"
	"github.com/softroce/softroce-xdp/loader/device/limits"
	"github.com/softroce/softroce-xdp/loader/engine"
	"github.com/softroce/softroce-xdp/rocev2/nic"
	"github.com/softroce/softroce-xdp/rocev2/rdma/proto"
)

// nicFlags adds the flags of the device that the agent serves.
func (s *settings) nicFlags(f *pflag.FlagSet) {
	s.nic.Mode = 0o600
	f.BoolVar(&s.serve, "nic", false, "the agent serves an RDMA device of the interface to other processes")
	f.Var(modeVar{&s.nic.Mode}, "nic-mode", "mode of the device's socket, octal: who may write to it may use the device")
	f.Var(groupVar{&s.nic.Group}, "nic-group", "group of the device's socket (default: that of the agent)")
	f.BoolVar(&s.nic.PreCredit, "nic-precredit", false, "the device grants pre-credit to peers whose engine has it too, and sends first round trips on theirs")
	f.Var(cli.CountVar(&s.nic.LargeDSCP, 0, 63), "nic-large-dscp", "with --nic-precredit: DSCP of large flows, for switches with a queue that they serve last; 0 for none")
	f.Var(prefixesVar{&s.nic.Allow}, "nic-allow", "PREFIX[,PREFIX]: hosts that the device exchanges packets with, for example 10.0.0.0/24,fd00::/64 (default: all)")
	for _, l := range s.nicLimits() {
		f.Var(cli.BigVar(l.value, 0), limits.Flag(l.scope, l.kind), fmt.Sprintf("most %s of a %s", l.kind, l.scope))
	}
}

// nicLimit is one limit of the device that the agent serves.
type nicLimit struct {
	scope limits.Scope
	kind  limits.Kind
	value *uint64
}

// nicLimits returns the limits, with their defaults as values.
func (s *settings) nicLimits() (all []nicLimit) {
	s.limits = limits.Defaults()
	for _, k := range limits.Kinds() {
		if k != limits.Processes {
			all = append(all, nicLimit{limits.PerProcess, k, &s.limits.Process[k]})
		}
		all = append(all, nicLimit{limits.PerUser, k, &s.limits.User[k]})
	}
	return all
}

// modeVar is a mode of a file, octal.
type modeVar struct{ dst *uint32 }

func (m modeVar) Type() string   { return "mode" }
func (m modeVar) String() string { return fmt.Sprintf("%04o", *m.dst) }
func (m modeVar) Set(s string) error {
	v, err := strconv.ParseUint(s, 8, 32)
	if err != nil || v > 0o777 {
		return fmt.Errorf("%q is not a mode, for example 0660", s)
	}
	*m.dst = uint32(v)
	return nil
}

// groupVar is a group of users, by its name or its number.
type groupVar struct{ dst **int }

func (g groupVar) Type() string { return "group" }
func (g groupVar) String() string {
	if g.dst == nil || *g.dst == nil {
		return ""
	}
	return strconv.Itoa(**g.dst)
}
func (g groupVar) Set(s string) error {
	id, err := strconv.Atoi(s)
	if err != nil {
		found, lookup := user.LookupGroup(s)
		if lookup != nil {
			return fmt.Errorf("there is no group %q: see `getent group`", s)
		}
		id, err = strconv.Atoi(found.Gid)
	}
	if err != nil || id < 0 {
		return fmt.Errorf("%q is not a group", s)
	}
	*g.dst = &id
	return nil
}

// prefixesVar is a list of prefixes of IP addresses. An address is a prefix with all bits.
type prefixesVar struct{ dst *[]netip.Prefix }

func (p prefixesVar) Type() string { return "prefixes" }
func (p prefixesVar) String() string {
	if p.dst == nil {
		return ""
	}
	return prefixes(*p.dst)
}
func (p prefixesVar) Set(s string) error {
	var all []netip.Prefix
	for _, one := range strings.Split(s, ",") {
		if one = strings.TrimSpace(one); one == "" {
			continue
		}
		prefix, err := netip.ParsePrefix(one)
		if err != nil {
			var a netip.Addr
			if a, err = netip.ParseAddr(one); err == nil {
				prefix = netip.PrefixFrom(a, a.BitLen())
			}
		}
		if err != nil || prefix.Addr().Zone() != "" || prefix.Addr().Is4In6() {
			return fmt.Errorf("%q is no prefix of addresses, for example 10.0.0.0/24 or fd00::/64", one)
		}
		all = append(all, prefix.Masked())
	}
	*p.dst = all
	return nil
}

// prefixes returns a list as --nic-allow takes it.
func prefixes(list []netip.Prefix) string {
	var all []string
	for _, p := range list {
		all = append(all, p.String())
	}
	return strings.Join(all, ",")
}

// checkNIC refuses settings of a device that is not served. has: the attachment has one already.
func (s *settings) checkNIC(has bool) error {
	for name, given := range s.given {
		if given && strings.HasPrefix(name, "nic-") && !s.serve && (!has || s.given["nic"]) {
			return cli.PlainUsage(fmt.Errorf("%s is for a device that the agent serves: add --nic", name))
		}
	}
	if s.serve && !has {
		return checkDSCP(&s.nic)
	}
	return nil
}

// checkDSCP refuses a DSCP of large flows without pre-credit, which tells large flows from small ones.
func checkDSCP(n *loader.NIC) error {
	if n.LargeDSCP != 0 && !n.PreCredit {
		return cli.PlainUsage(errors.New("nic-large-dscp needs pre-credit: add --nic-precredit, or set it to 0"))
	}
	return nil
}

// nic compares the settings of the device that the agent serves.
func (r *revision) nic(s *settings) error {
	has := r.state.NIC != nil
	if err := s.checkNIC(has); err != nil {
		return err
	}
	if s.given["nic"] && s.serve != has {
		r.note("nic", strconv.FormatBool(has), strconv.FormatBool(s.serve))
		r.state.NIC = s.NIC
		return nil
	}
	if !has {
		return nil
	}
	next, nextFlags := &settings{}, pflag.NewFlagSet("", pflag.ContinueOnError)
	next.nicFlags(nextFlags)
	next.setNIC(nextFlags, r.state.NIC)
	want, wantFlags := &settings{}, pflag.NewFlagSet("", pflag.ContinueOnError)
	want.nicFlags(wantFlags)
	want.nic, want.limits = s.nic, s.limits
	nextFlags.VisitAll(func(f *pflag.Flag) {
		if f.Name == "nic" || !s.given[f.Name] {
			return
		}
		value := wantFlags.Lookup(f.Name).Value.String()
		r.note(f.Name, f.Value.String(), value)
		_ = f.Value.Set(value) // it was accepted before
	})
	r.state.NIC = next.stateNIC(nextFlags)
	return checkDSCP(r.state.NIC)
}

// stateNIC returns the settings as the state of an attachment has them.
func (s *settings) stateNIC(flags *pflag.FlagSet) *loader.NIC {
	n := s.nic
	n.Limits = map[string]string{}
	flags.VisitAll(func(f *pflag.Flag) {
		if strings.HasPrefix(f.Name, limitPrefix) && f.Value.String() != f.DefValue {
			n.Limits[f.Name] = f.Value.String()
		}
	})
	return &n
}

// setNIC sets the settings of the state of an attachment.
func (s *settings) setNIC(flags *pflag.FlagSet, n *loader.NIC) {
	s.nic.Mode, s.nic.Group, s.nic.PreCredit, s.nic.LargeDSCP, s.nic.Allow = n.Mode, n.Group, n.PreCredit, n.LargeDSCP, n.Allow
	for name, value := range n.Limits {
		if f := flags.Lookup(name); f != nil { // or another version had it
			_ = f.Value.Set(value) // it was accepted before
		}
	}
}

// limitPrefix begins the names of the flags of limits.
const limitPrefix = "nic-max-"

// runAgent runs the agent of an interface, and the device that it serves if the attachment has one.
func runAgent(ctx context.Context, name string, o loader.Options, log *slog.Logger, ready func()) error {
	stayResident(log)
	st, err := loader.ReadState(o.RunDir, name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if st.NIC == nil {
		return agent.Run(ctx, name, o, log, ready, func() {})
	}
	if err := setNiceness(deviceNice); err != nil {
		log.Warn("the agent has the usual priority: the device may be slower while others use the processors", "err", err)
	}
	served, err := serveNIC(name, o, st.NIC, log)
	if err != nil {
		return err
	}
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		lost := func() bool { return !loader.IsAttached(name, o) }
		keepServing(served, stop, lost, func() (*device.Server, error) { return serveNIC(name, o, st.NIC, log) }, log)
	}()
	// The device ends before the agent gives up its lease: who stops the agent may take the engine's
	// lease then.
	running, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	endDevice := sync.OnceFunc(func() {
		close(stop)
		<-ended
	})
	defer context.AfterFunc(ctx, func() {
		endDevice()
		end()
	})()
	err = agent.Run(running, name, o, log, ready, endDevice)
	endDevice() // of an agent that could not start
	return err
}

// nicRetry is the time between two attempts to open a device that has ended.
const nicRetry = time.Second

// keepServing opens the device again when it has ended by itself, until stop. lost reports that its interface was lost.
func keepServing(s *device.Server, stop <-chan struct{}, lost func() bool, again func() (*device.Server, error), log *slog.Logger) {
	for {
		var ended <-chan struct{}
		if s != nil {
			ended = s.Ended()
		}
		select {
		case <-stop:
			if s != nil {
				if lost() { // the agent may find it before the device does
					s.AwaitEnd()
				}
				closeNIC(s, log)
			}
			return
		case <-ended:
			log.Error("the device has ended; it is opened again")
			closeNIC(s, log)
			s = nil
		case <-time.After(nicRetry):
			if s != nil {
				continue
			}
			var err error
			if s, err = again(); err != nil {
				log.Error("the device cannot be opened again", "err", err)
				s = nil
			}
		}
	}
}

func closeNIC(s *device.Server, log *slog.Logger) {
	if err := s.Close(); err != nil {
		log.Warn("end of the device", "err", err)
	}
}

// serveNIC opens the engine of an interface and serves it.
func serveNIC(name string, o loader.Options, n *loader.NIC, log *slog.Logger) (*device.Server, error) {
	set, flags := &settings{}, pflag.NewFlagSet("", pflag.ContinueOnError)
	set.nicFlags(flags)
	set.setNIC(flags, n)
	s, err := device.New(device.Config{
		Socket: proto.SocketPath(o.RunDir, name), Mode: fs.FileMode(n.Mode), Group: n.Group,
		Rate: func() uint64 { return loader.LinkRate(name) }, Limits: &set.limits, Log: log,
	})
	if err != nil {
		return nil, err
	}
	dev, err := engine.Open(name, o, nic.Options{Feeder: s.Feeder(), PreCredit: n.PreCredit, LargeDSCP: uint8(n.LargeDSCP), Allow: n.Allow})
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if err := s.Serve(dev); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	log.Info("serves the device", "socket", proto.SocketPath(o.RunDir, name))
	return s, nil
}
