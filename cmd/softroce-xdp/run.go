// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/cmd/internal/cli"
	"github.com/softroce/softroce-xdp/cmd/internal/host"
	"github.com/softroce/softroce-xdp/rocev2/rdma"
	"github.com/softroce/softroce-xdp/rocev2/rdma/client"
	"github.com/softroce/softroce-xdp/rocev2/rdma/proto"
)

// runner is the command run: it executes a program with the verbs library of this project and the files of its devices.
type runner struct {
	app         *host.App
	dev         string // interface; "" = all devices that this user may open
	library     string // directory of the library; "" = the usual places
	libraryOnly bool
	inside      bool // this process is in the user namespace that execInside has made for it
}

func newRun(a *host.App) *cobra.Command {
	r := runner{app: a}
	cmd := &cobra.Command{
		Use:   "run [--dev IF] [--] COMMAND [ARG]...",
		Short: "Run a program of libibverbs on the devices of this host (attach --nic)",
		Long: `Run executes a program that uses libibverbs on the devices that agents serve on this
host (attach --nic). It needs write access to their sockets and no other privilege.
The device of eth0 is softroce_eth0. The program has:

  LD_LIBRARY_PATH       the directory of this project's libibverbs.so.1 comes first
  SOFTROCE_RUN_DIR      the directory of the sockets
  SOFTROCE_DEV          the interfaces whose devices the program has
  /dev/infiniband       the character devices uverbs0 and so on, which UCX looks for;
                        they lead to /dev/null
  /sys/class/infiniband state, rate, GIDs and interface of each device, as they are when
                        the program starts; UCX, NCCL and pyverbs read them

Only the program and its children see these files, in a mount namespace of their own.
Entries that are added to /dev later are not seen. Without root the program is in a user
namespace too: user and group stay those of the caller, and set-user-ID programs such as
sudo do not get the rights of root (unshare of util-linux makes it). Processes of two such run commands cannot copy each
other's memory (process_vm_readv): on one host, run mpirun rather than each rank. Where
the kernel refuses the namespaces, as in most containers, a message says so, and the
program has the library and the variables only. So it is for root without the capability
CAP_SYS_ADMIN.

Statically linked programs and set-user-ID programs do not use the library.
The exit code is that of the program, or 128+N if signal N has killed it. Errors of run
itself have the exit codes of softroce-xdp.`,
		Example: `  softroce-xdp run -- ibv_devinfo -v
  softroce-xdp run -- ib_write_bw host2
  softroce-xdp run --dev eth1 -- mpirun -np 4 ./solver`,
		DisableFlagsInUseLine: true, // they stand before COMMAND
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cli.Usagef("COMMAND is missing: %s", cmd.UseLine())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return r.run(cmd, args) },
	}
	f := cmd.Flags()
	f.SetInterspersed(false) // what follows COMMAND belongs to it
	f.StringVar(&r.dev, "dev", "", "the interface whose device the program has (default: all that this user may use)")
	f.Var(cli.DirVar(&r.library), "library", "directory of libibverbs.so.1 (default: where make verbs or make install has put it)")
	f.BoolVar(&r.libraryOnly, "library-only", false, "no namespaces: the program sees /dev and /sys/class of the host")
	f.BoolVar(&r.inside, "inside", false, "this process is in a user namespace of its own")
	_ = f.MarkHidden("inside")
	_ = cmd.RegisterFlagCompletionFunc("dev", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return proto.Served(a.RunDir), cobra.ShellCompDirectiveNoFileComp
	})
	return cmd
}

// run executes the program in place of this process. It returns only if that fails.
func (r *runner) run(cmd *cobra.Command, command []string) error {
	path, err := exec.LookPath(command[0])
	var cause *exec.Error
	if errors.As(err, &cause) && !errors.Is(err, exec.ErrDot) {
		return cli.PlainUsage(fmt.Errorf("%s: %w", command[0], cause.Err))
	}
	if r.library, err = findLibrary(r.library); err != nil {
		return err
	}
	devices, err := r.devices(cmd.Context())
	if err != nil {
		return err
	}
	if !r.libraryOnly {
		err := r.enterNamespace(command)
		if err == nil {
			err = addFiles(devices, len(proto.Served(r.app.RunDir)))
		}
		if err != nil {
			fmt.Fprintf(cmd.ErrOrStderr(), "softroce-xdp: the program has the library, and no files of the devices in /dev/infiniband "+
				"or /sys/class/infiniband, which UCX and NCCL need (--library-only omits this message): %v\n", err)
		}
	}
	if r.inside {
		if err := dropCapabilities(); err != nil {
			return err
		}
	}
	// The cause is not wrapped: root has no more permission to execute the file.
	return fmt.Errorf("%s: %v", path, unix.Exec(path, command, environment(os.Environ(), r.library, r.app.RunDir, devices)))
}

// openPatience bounds the opening of a device, whose agent may be stopped.
const openPatience = 30 * time.Second

// devices returns the devices for the program: that of --dev, or all that this user may open, at least one.
func (r *runner) devices(ctx context.Context) (found []*verbsDevice, err error) {
	names := proto.Served(r.app.RunDir)
	if r.dev != "" {
		if err := host.CheckName(r.dev); err != nil {
			return nil, err
		}
		names = []string{r.dev}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("no agent of this host serves a device (%s has no socket): run `softroce-xdp attach --nic IF` as root", r.app.RunDir)
	}
	var errs []error
	for _, name := range names {
		d, err := readDevice(ctx, r.app.RunDir, name)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		found = append(found, d)
	}
	if len(found) == 0 {
		return nil, errors.Join(errs...)
	}
	return found, nil
}

// readDevice opens the device of an interface, and reads what its files have.
func readDevice(ctx context.Context, runDir, iface string) (*verbsDevice, error) {
	ctx, cancel := context.WithTimeout(ctx, openPatience)
	defer cancel()
	dev, err := rdma.Open(ctx, iface, rdma.WithConfig(client.Config{RunDir: runDir}))
	if err != nil {
		return nil, err
	}
	defer dev.Close()
	port, err := dev.Port()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", iface, err)
	}
	d := &verbsDevice{iface: iface, port: port}
	d.readInterface()
	return d, nil
}

// environment returns the environment of the program, made from that of this process.
func environment(ours []string, library, runDir string, devices []*verbsDevice) []string {
	var names []string
	for _, d := range devices {
		names = append(names, d.iface)
	}
	set := map[string]string{"LD_LIBRARY_PATH": library, "SOFTROCE_RUN_DIR": runDir, "SOFTROCE_DEV": strings.Join(names, ",")}
	var env []string
	for _, v := range ours {
		name, value, _ := strings.Cut(v, "=")
		if _, replaced := set[name]; !replaced {
			env = append(env, v)
		} else if name == "LD_LIBRARY_PATH" && value != "" { // an empty element would be the working directory
			set[name] = library + ":" + value
		}
	}
	for name, value := range set {
		env = append(env, name+"="+value)
	}
	return env
}
