// SPDX-License-Identifier: Apache-2.0

package card

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/cmd/internal/cli"
	"github.com/softroce/softroce-xdp/hwoffload"
	"github.com/softroce/softroce-xdp/hwoffload/driver"
	"github.com/softroce/softroce-xdp/loader"
)

const (
	// cardTimeout limits the wait for an answer of a card behind a socket.
	cardTimeout = 5 * time.Second
	// freePatience limits the wait for another command that uses the card.
	freePatience = 20 * time.Second
)

// cardID is a card as the user names it.
type cardID struct {
	name string // name as the user wrote it
	path string // path of the BAR; "" = behind a socket
	addr string // address of the socket, for hwoffload.Dial
	file string // name of its files in the run directory
	pci  bool   // file is its PCI address
}

var pciAddress = regexp.MustCompile(`^([0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]$`)

// parseCard reads the name of a card. It does not check that there is one.
func parseCard(s string) (cardID, error) {
	if pciAddress.MatchString(s) {
		return pciCard(s, s), nil
	}
	id, path := cardID{name: s}, s
	sock, isSocket := strings.CutPrefix(s, "unix:")
	if isSocket {
		path = sock
	}
	if path == "" || !isSocket && !strings.Contains(path, "/") {
		return id, cli.Usagef("%q is no card: write the address of a PCI device (0000:03:00.0), the path of the file of a BAR, or unix: and the path of a socket", s)
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return id, err
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	// sysfs has several paths to a device.
	if pci := filepath.Base(filepath.Dir(path)); !isSocket && filepath.Base(path) == "resource0" && pciAddress.MatchString(pci) {
		return pciCard(s, pci), nil
	}
	if isSocket {
		id.addr = "unix:" + path
	} else {
		id.path = path
	}
	id.file = fmt.Sprintf("%x", sha256.Sum256([]byte(id.addr+id.path)))[:16]
	return id, nil
}

// pciCard is the card at a PCI address.
func pciCard(name, pci string) cardID {
	pci = strings.ToLower(pci)
	if strings.Count(pci, ":") == 1 {
		pci = "0000:" + pci
	}
	return cardID{name: name, path: "/sys/bus/pci/devices/" + pci + "/resource0", file: pci, pci: true}
}

// full is a name of the card that does not depend on the working directory.
func (id *cardID) full() string {
	switch {
	case id.pci:
		return id.file
	case id.addr != "":
		return id.addr
	}
	return id.path
}

// open opens the device itself.
func (id *cardID) open() (hwoffload.Device, error) {
	if id.addr != "" {
		d, err := hwoffload.Dial(id.addr, cardTimeout)
		if err != nil {
			return nil, err
		}
		return d, nil
	}
	d, err := hwoffload.OpenBAR(id.path)
	if errors.Is(err, fs.ErrNotExist) && id.pci {
		return nil, fmt.Errorf("there is no PCI device %s with a BAR 0: `lspci` lists the devices", id.file)
	}
	return d, err
}

// cardDir has the files of attached cards.
func (a *app) cardDir() string { return filepath.Join(a.runDir, "cards") }

// cardSocket is the path at which the process of attach serves a card to the other commands.
func (a *app) cardSocket(id *cardID) string { return filepath.Join(a.cardDir(), id.file+".sock") }

// openCard opens a card, through the process of attach if there is one.
func (a *app) openCard(id *cardID) (*hwoffload.Card, error) {
	return openWhenFree(id, func() (hwoffload.Device, error) {
		if !loader.AgentAlive(a.cardDir(), id.file) {
			return id.open()
		}
		d, err := hwoffload.Dial("unix:"+a.cardSocket(id), cardTimeout)
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ECONNREFUSED) {
				err = fmt.Errorf("%w: softroce-card attach starts or ends (%w)", hwoffload.ErrInUse, err)
			}
			return nil, err
		}
		return d, nil
	})
}

// openWhenFree opens a card. It waits for another command that uses it.
func openWhenFree(id *cardID, open func() (hwoffload.Device, error)) (*hwoffload.Card, error) {
	for end := time.Now().Add(freePatience); ; time.Sleep(20 * time.Millisecond) {
		d, err := open()
		if errors.Is(err, hwoffload.ErrInUse) && time.Now().Before(end) {
			continue
		}
		if err != nil {
			return nil, cardError(id, err)
		}
		c, err := hwoffload.Open(d)
		if err != nil {
			d.Close()
			return nil, cardError(id, err)
		}
		return c, nil
	}
}

// cardError adds the name of the card to an error that does not have it.
func cardError(id *cardID, err error) error {
	if strings.Contains(err.Error(), id.name) {
		return err
	}
	return fmt.Errorf("%s: %w", id.name, err)
}

// withTable calls f with the table of a card.
func (a *app) withTable(id *cardID, f func(c *hwoffload.Card, t *driver.Table) error) error {
	return a.withCard(id, func(c *hwoffload.Card) error {
		t, err := driver.NewTable(c)
		if err != nil {
			return err
		}
		return f(c, t)
	})
}

// withCard calls f with a card.
func (a *app) withCard(id *cardID, f func(c *hwoffload.Card) error) error {
	c, err := a.openCard(id)
	if err != nil {
		return err
	}
	if err := f(c); err != nil {
		c.Close()
		return cardError(id, err)
	}
	return c.Close()
}

// oneCard returns the card of a command that works on one: the argument, or the only card that
// is attached.
func (a *app) oneCard(args []string) (*cardID, error) {
	if len(args) > 0 {
		id, err := parseCard(args[0])
		return &id, err
	}
	all, err := a.attachedCards()
	switch {
	case err != nil:
		return nil, err
	case len(all) == 0:
		return nil, cli.Usagef("no card is attached: name one")
	case len(all) > 1:
		return nil, cli.Usagef("several cards are attached, name one: %s", strings.Join(all, ", "))
	}
	id, err := parseCard(all[0])
	return &id, err
}

// attachedCards returns the names of the cards that have an agent.
func (a *app) attachedCards() (names []string, err error) {
	files, err := filepath.Glob(filepath.Join(a.cardDir(), "*.json"))
	for _, f := range files {
		s, err := readCardState(f)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
		if err == nil && loader.AgentAlive(a.cardDir(), strings.TrimSuffix(filepath.Base(f), ".json")) {
			names = append(names, s.Card)
		}
	}
	return names, err
}

// completeCards completes names of attached cards in the shell.
func (a *app) completeCards(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	names, _ := a.attachedCards()
	return names, cobra.ShellCompDirectiveDefault
}
