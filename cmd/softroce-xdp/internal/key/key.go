// SPDX-License-Identifier: Apache-2.0

// Package key is the command key, and the flags of commands that may encrypt.
package key

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/softroce/softroce-xdp/cmd/internal/cli"
	"github.com/softroce/softroce-xdp/rocev2/rdma"
	"github.com/softroce/softroce-xdp/rocev2/seal"
)

// New returns the command key.
func New() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "key",
		Short: "Make and show the key of this host, for encryption",
		Long: `Key makes the key pair by which other hosts know this one, for the --encrypt of ping
and perf:

  host1# softroce-xdp key generate /etc/softroce-xdp/key
  host1# softroce-xdp key show /etc/softroce-xdp/key

Both print the public key. Each host has a file with the addresses and public keys of
its peers, one a line:

  10.0.0.2  Y7yNUwRySwLhsBjMqXZ0aGkRKmEMqRnQ6c3GVJ7sbjs=

Only the owner may read the file of the private key. docs/program/encryption.md says what
encryption hides and what it does not.`,
	}
	cli.Group(cmd,
		&cobra.Command{
			Use:   "generate FILE",
			Short: "Write a new private key to a file, and print the public key",
			Args:  cli.Takes(1, 1),
			RunE: func(cmd *cobra.Command, args []string) error {
				id, err := seal.GenerateFile(args[0])
				if errors.Is(err, fs.ErrExist) {
					return fmt.Errorf("%s: the file exists, and is not overwritten: choose another, or print its public key by `softroce-xdp key show`", args[0])
				}
				if err != nil {
					return err
				}
				fmt.Fprintln(cmd.OutOrStdout(), id.Public())
				return nil
			},
		},
		&cobra.Command{
			Use:   "show FILE",
			Short: "Print the public key of a file with a private key",
			Args:  cli.Takes(1, 1),
			RunE: func(cmd *cobra.Command, args []string) error {
				id, err := seal.ReadIdentity(args[0])
				if err != nil {
					return err
				}
				fmt.Fprintln(cmd.OutOrStdout(), id.Public())
				return nil
			},
		},
	)
	return cmd
}

// EncryptFlags are the flags of commands that may encrypt.
type EncryptFlags struct {
	Encrypt    bool
	key, peers string
}

// Flags adds the flags.
func (e *EncryptFlags) Flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&e.Encrypt, "encrypt", false, "encrypt; both ends need it, with --key and --peers")
	f.StringVar(&e.key, "key", "", "with --encrypt: file with the private key of this host (softroce-xdp key generate)")
	f.StringVar(&e.peers, "peers", "", "with --encrypt: file with the addresses and public keys of other hosts")
}

// Load reads the files. It returns nil without --encrypt.
func (e *EncryptFlags) Load() (*rdma.Encryption, error) {
	if !e.Encrypt {
		if e.key != "" || e.peers != "" {
			return nil, cli.Usagef("--key and --peers go with --encrypt")
		}
		return nil, nil
	}
	if e.key == "" || e.peers == "" {
		return nil, cli.Usagef("--encrypt needs --key and --peers")
	}
	id, err := seal.ReadIdentity(e.key)
	if err != nil {
		return nil, fmt.Errorf("--key: %w", err)
	}
	peers, err := seal.ReadPeers(e.peers)
	if err != nil {
		return nil, fmt.Errorf("--peers: %w", err)
	}
	return &rdma.Encryption{Identity: id, Peers: peers.Of}, nil
}
