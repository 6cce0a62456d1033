// SPDX-License-Identifier: Apache-2.0

package card

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/cmd/internal/cli"
	"github.com/softroce/softroce-xdp/hwoffload"
	"github.com/softroce/softroce-xdp/hwoffload/card"
	"github.com/softroce/softroce-xdp/loader"
)

func newModel() *cobra.Command {
	return &cobra.Command{
		Use:   "model unix:PATH",
		Short: "Be a card: serve the model of one on a socket",
		Long: `Model serves a card in memory on a socket, until it is interrupted. The other card commands
use it as unix:PATH. It has all registers and the memory of a card, and executes its
commands. It has no network: no packets arrive.`,
		Example: "  softroce-card model unix:/tmp/card.sock &\n  softroce-card regs unix:/tmp/card.sock",
		Args:    cli.Takes(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			path, ok := strings.CutPrefix(args[0], "unix:")
			if !ok || path == "" {
				return cli.Usagef("%q: write unix: and the path of the socket", args[0])
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), unix.SIGTERM, unix.SIGINT)
			defer stop()
			l, err := listenUnix(path)
			if err != nil {
				return err
			}
			go func() {
				<-ctx.Done()
				l.Close()
			}()
			fmt.Fprintf(cmd.OutOrStdout(), "%s: serves a card\n", args[0])
			return hwoffload.Serve(l, card.NewAt(loader.Monotonic))
		},
	}
}

// listenUnix makes a socket. One that is there is replaced, unless a process listens.
func listenUnix(path string) (net.Listener, error) {
	unlock, err := lockPath(path)
	if err != nil {
		return nil, err
	}
	defer unlock()
	l, err := net.Listen("unix", path)
	if !errors.Is(err, unix.EADDRINUSE) {
		return l, err
	}
	s, failed := os.Lstat(path)
	if failed != nil || s.Mode()&os.ModeSocket == 0 {
		return nil, fmt.Errorf("%s is there, and is no socket: remove it, or choose another path", path)
	}
	if c, failed := net.Dial("unix", path); failed == nil {
		c.Close()
		return nil, fmt.Errorf("%s: another process listens there: end it, or choose another path", path)
	}
	if err := os.Remove(path); err != nil {
		return nil, err
	}
	return net.Listen("unix", path)
}

// lockPath keeps other models from replacing the socket at path until unlock: two that find the same one would both
// remove it, and the second that of the first.
func lockPath(path string) (unlock func(), err error) {
	path += ".lock"
	f, err := loader.OpenLocked(path, 0o666, func(fd uintptr) error { return unix.Flock(int(fd), unix.LOCK_EX) })
	if err != nil {
		return nil, err
	}
	return func() { loader.RemoveLocked(f, path) }, nil
}
