// SPDX-License-Identifier: Apache-2.0

package card

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/cc/fourcase"
	"github.com/softroce/softroce-xdp/cmd/internal/cli"
	"github.com/softroce/softroce-xdp/cmd/internal/policy"
	"github.com/softroce/softroce-xdp/hwoffload"
	"github.com/softroce/softroce-xdp/hwoffload/driver"
	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/loader"
	"github.com/softroce/softroce-xdp/loader/nodefile"
)

// attachSettings are the flags of attach.
type attachSettings struct {
	nodeFile string
	node     uint32
	policy   []string
	file     *nodefile.File    // content of nodeFile; nil = none
	changed  map[string]string // the parameters of policy
}

func newAttach(a *app) *cobra.Command {
	var s attachSettings
	cmd := &cobra.Command{
		Use:   "attach DEV",
		Short: "Run the policy for the destinations of a card",
		Long: `Attach sets the rates of the card's destinations by the same policy as on an interface,
until it is interrupted. It stays in the foreground: the card itself measures and paces,
and keeps the last rates when attach ends.

The destinations are the nodes in the registers of the card (block nodes). With --nodes
they are written there first, from a node file; of a node with several addresses, the
first is used. The port of a node that has the same number and address as before stays.`,
		Example: "  softroce-card attach --nodes nodes.yaml --node 1 0000:03:00.0\n  softroce-card attach --policy mode=literal unix:/run/card.sock",
		Args:    cli.Takes(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := parseCard(args[0])
			if err != nil {
				return err
			}
			if err := s.check(); err != nil {
				return err
			}
			return a.attachCard(cmd, &id, &s)
		},
	}
	f := cmd.Flags()
	f.StringVar(&s.nodeFile, "nodes", "", "node file: numbers, addresses and priorities of the nodes (default: what the card has)")
	f.Var(cli.CountVar(&s.node, 1, driver.MaxNode), "node", "number of this node in the node file (default: what the card has)")
	f.Var(policy.ListVar(&s.policy), "policy", "a policy parameter, name=value; may be repeated (see policy set)")
	return cmd
}

// check reads the node file and the parameters before the card is opened.
func (s *attachSettings) check() error {
	var err error
	if s.changed, err = cardPolicyFlags(s.policy); err != nil {
		return err
	}
	if s.nodeFile == "" {
		if s.node != 0 {
			return cli.Usagef("--node needs --nodes: the card has the number that was written with its nodes")
		}
		return nil
	}
	path, err := filepath.Abs(s.nodeFile)
	if err != nil {
		return err
	}
	file, err := nodefile.Read(path)
	if err != nil {
		return cli.FileError(err)
	}
	s.nodeFile, s.file = path, &file
	return nil
}

// attachCard runs the agent of a card until it is interrupted or the card fails.
func (a *app) attachCard(cmd *cobra.Command, id *cardID, s *attachSettings) error {
	lock, err := loader.TakeLock(a.cardDir(), id.file)
	if errors.Is(err, loader.ErrAgentRunning) {
		return fmt.Errorf("%s: %s: `softroce-card status %s` shows it", id.name, strings.TrimPrefix(err.Error(), id.file+": "), id.name)
	}
	if err != nil {
		return err
	}
	defer lock.Release()
	c, err := openWhenFree(id, id.open)
	if err != nil {
		return err
	}
	t, err := s.apply(c)
	if err == nil {
		err = a.runCard(cmd, id, s, c, t)
	}
	if err != nil {
		c.Close()
		return cardError(id, err)
	}
	return c.Close()
}

// apply writes nodes and parameters to the card.
func (s *attachSettings) apply(c *hwoffload.Card) (*driver.Table, error) {
	t, err := driver.NewTable(c)
	if err != nil {
		return nil, err
	}
	if s.file != nil {
		self := s.node
		if self == 0 {
			self = t.Self()
		}
		nodes := cardNodes(s.file, t)
		if err := driver.CheckNodes(self, nodes); err != nil {
			return nil, cli.PlainUsage(fmt.Errorf("node file %s: %w", s.nodeFile, err))
		}
		if err := t.SetNodes(self, nodes); err != nil {
			return nil, err
		}
	}
	if len(s.changed) > 0 {
		_, err = changeCardPolicy(t, s.changed)
	}
	return t, err
}

// cardNodes returns the nodes of a node file. A node that the card has already keeps its port.
func cardNodes(file *nodefile.File, t *driver.Table) (list []driver.Node) {
	ports := map[driver.Node]uint32{}
	for _, n := range t.Nodes() {
		port := n.Port
		n.Port = 0
		ports[n] = port
	}
	for _, n := range file.Nodes {
		x := driver.Node{Number: n.Number}
		if len(n.Addresses) > 0 {
			x.Addr = n.Addresses[0].Unmap()
		}
		x.Port = ports[x]
		list = append(list, x)
	}
	return list
}

// runCard serves the card to the other commands, and runs the agent.
func (a *app) runCard(cmd *cobra.Command, id *cardID, s *attachSettings, c *hwoffload.Card, t *driver.Table) error {
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM, unix.SIGINT)
	defer stop()
	listener, err := a.listenCard(id)
	if err != nil {
		return err
	}
	served := make(chan error, 1)
	go func() { served <- hwoffload.Serve(listener, c.Device) }()
	defer func() {
		listener.Close()
		<-served
	}()
	state := cardState{Card: id.full(), PID: os.Getpid(), Version: cli.Version, Attached: time.Now(), NodeFile: s.nodeFile}
	path := a.cardStatePath(id)
	defer os.Remove(path)
	var beat time.Time
	o := driver.AgentOptions{
		Sharer: s.file.Sharer, Log: a.log.AgentLogger(cmd.ErrOrStderr()).With("card", id.name),
		Ready: func() {
			if err = state.write(path); err != nil {
				stop() // the other commands would not find the card
				return
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s: attached (%d destinations, policy %s)\n", id.name, len(t.Nodes()), policyMode(t))
			_, _ = daemon.SdNotify(false, daemon.SdNotifyReady)
		},
		Beat: func() {
			if now := time.Now(); now.Sub(beat) >= heartbeatPeriod {
				beat = now
				_ = os.Chtimes(path, now, now)
			}
		},
	}
	for i := range uint32(regs.PortsCount) {
		o.Ports = append(o.Ports, t.Port(i))
	}
	if failed := driver.RunAgent(ctx, t, o); failed != nil {
		return failed
	}
	return err
}

// listenCard makes the socket of the other commands. The caller has the lock of the card, so one
// that is there is of a process that was killed.
func (a *app) listenCard(id *cardID) (net.Listener, error) {
	path := a.cardSocket(id)
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	// Who may use it may change the rates and the memory of the card.
	defer unix.Umask(unix.Umask(0o177))
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("socket for the other commands: %w", err)
	}
	return l, nil
}

// policyMode is the mode of the card's policy, for people.
func policyMode(t *driver.Table) string {
	p, err := t.Params()
	if err != nil {
		return "unknown"
	}
	return bpf.ParamsAs[fourcase.Params](&p).Mode.String()
}

// heartbeatPeriod is the time between two heartbeats of attach; an agent whose heartbeat is
// older than heartbeatLimit does not work.
const (
	heartbeatPeriod = 500 * time.Millisecond
	heartbeatLimit  = 5 * time.Second
)

// cardState is what attach tells the other commands, in a file of the run directory. The
// time of the file is that of the last heartbeat.
type cardState struct {
	Card     string    `json:"card"`
	PID      int       `json:"pid"`
	Version  string    `json:"version"`
	Attached time.Time `json:"attached"`
	NodeFile string    `json:"node_file,omitempty"`

	beat time.Time
}

func (a *app) cardStatePath(id *cardID) string {
	return filepath.Join(a.cardDir(), id.file+".json")
}

// write replaces the file atomically.
func (s *cardState) write(path string) error {
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(path+".new", append(b, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

func readCardState(path string) (*cardState, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	s := &cardState{beat: info.ModTime()}
	if err := json.Unmarshal(b, s); err != nil {
		return nil, fmt.Errorf("%s is damaged (%w): remove it", path, err)
	}
	return s, nil
}
