// SPDX-License-Identifier: Apache-2.0

package confine

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
)

// groups returns the groups of system calls that systemd knows, with their members.
func groups() (map[string][]string, error) {
	out, err := exec.Command("systemd-analyze", "syscall-filter", "--no-pager").Output()
	if err != nil {
		return nil, fmt.Errorf("systemd-analyze syscall-filter: %w", err)
	}
	all, group := map[string][]string{}, ""
	for line := range strings.Lines(string(out)) {
		word := strings.TrimSpace(line)
		switch {
		case word == "" || word[0] == '#':
		case line[0] == '@':
			group = word
		case line[0] == ' ' && group != "":
			all[group] = append(all[group], word)
		}
	}
	if len(all["@system-service"]) == 0 {
		return nil, fmt.Errorf("systemd-analyze syscall-filter prints no group @system-service")
	}
	return all, nil
}

// numbers returns the numbers of the system calls of this machine, by the headers of the C library.
func numbers() (map[string]uint32, error) {
	cmd := exec.Command("cc", "-E", "-dM", "-")
	cmd.Stdin = strings.NewReader("#include <asm/unistd.h>\n")
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("numbers of the system calls: cc -E -dM: %w", err)
	}
	text := map[string]string{}
	for line := range strings.Lines(string(out)) {
		if f := strings.Fields(line); len(f) == 3 && strings.HasPrefix(f[1], "__NR") {
			text[f[1]] = f[2]
		}
	}
	all := map[string]uint32{}
	for name, value := range text {
		call, ok := strings.CutPrefix(name, "__NR_")
		if !ok {
			continue
		}
		if other, ok := text[value]; ok { // some are defined by others
			value = other
		}
		if n, err := strconv.ParseUint(value, 0, 32); err == nil {
			all[call] = uint32(n)
		}
	}
	return all, nil
}

// allowed returns the numbers of the system calls that the filter of a unit allows, or nil if it has none.
func (u Unit) allowed() (map[uint32]bool, error) {
	lists := u["SystemCallFilter"]
	if lists == nil {
		return nil, nil
	}
	known, err := groups()
	if err != nil {
		return nil, err
	}
	number, err := numbers()
	if err != nil {
		return nil, err
	}
	set := map[uint32]bool{}
	var change func(name string, allow bool) error
	change = func(name string, allow bool) error {
		if name[0] == '@' {
			if known[name] == nil {
				return fmt.Errorf("SystemCallFilter: systemd knows no group %s", name)
			}
			for _, member := range known[name] {
				if err := change(member, allow); err != nil {
					return err
				}
			}
			return nil
		}
		if n, ok := number[name]; ok { // or another machine has it
			if set[n] = allow; !allow {
				delete(set, n)
			}
		}
		return nil
	}
	if strings.HasPrefix(lists[0], "~") {
		return nil, fmt.Errorf("SystemCallFilter: a list of what is refused is not supported: begin with what is allowed")
	}
	for _, list := range append([]string{"@default"}, lists...) {
		names, refuse := strings.CutPrefix(list, "~")
		for _, name := range strings.Fields(names) {
			if err := change(name, !refuse); err != nil {
				return nil, err
			}
		}
	}
	return set, nil
}
