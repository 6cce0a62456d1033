// SPDX-License-Identifier: Apache-2.0

package agents

import (
	"fmt"
	"slices"
	"strings"
)

// Outcome is what follows from a change.
type Outcome int

const (
	// Harmless: everything in force stays in force, and status names no problem.
	Harmless Outcome = iota
	// Refused: the command fails and changes nothing.
	Refused
	// Repaired: the agent puts back what is missing.
	Repaired
	// Named: a line of status names the problem. It stays until the administrator acts.
	Named
)

// Situation is one change on a host with an attached interface.
type Situation struct {
	What string

	// Command is a script of sh for the host's namespace. $IF is the interface, $ADDR its
	// address with the prefix, $PEER the address of the other host, $PINS the interface's pins, $PINROOT their bpf file system,
	// $RUN the run directory, $STATE the state file, $AGENT the agent's process, $NS an empty
	// network namespace, and $X the program.
	Command string

	// Change is used instead of Command where no program makes the change. The result takes the
	// change back; nil: Undo and Remedy do.
	Change func(*Lab) (undo func() error, err error)

	// Text describes the change in the table, if the command does not.
	Text string

	Outcome Outcome

	// Words are those of the line of status that names the problem, in any case.
	Words []string

	// Undo is a script that takes the change back, for Harmless and Named.
	Undo string

	// Remedy is the script that puts everything in force again, after Undo: for Named.
	Remedy string

	// RemedyFirst: Remedy works before the change is taken back, and is checked then.
	RemedyFirst bool

	// Shown is the remedy in the table, if Undo and Remedy do not say it.
	Shown string

	// Stops: RoCE traffic stops meanwhile. Otherwise it goes on.
	Stops bool

	// Lingers: the line of status stays for some time after Undo. The hosts of the group end with
	// such a situation, so it is the last one.
	Lingers bool

	// Meanwhile describes the traffic until the repair or the remedy.
	Meanwhile string

	// Within is how soon it is noticed, in seconds; 0 means 2.
	Within int
}

// Group has situations of one subject. They run one after another on hosts of their own.
type Group struct {
	Name       string
	Attach     []string // flags of attach
	Foreground bool     // the agent is a process of `attach --foreground`, as that of the unit is
	Situations []Situation
}

// command is what the administrator does, as the table shows it.
func (s *Situation) command() string {
	if s.Text != "" {
		return s.Text
	}
	return shown(s.Command)
}

var shorter = strings.NewReplacer("$IF", "IF", "$X ", "softroce-xdp ", "$PINROOT", "/sys/fs/bpf", "$PINS", "/sys/fs/bpf/softroce-xdp/IF", "$RUN", "/run/softroce-xdp", "$STATE", "/run/softroce-xdp/IF.json", "$AGENT", "PID", "$NS", "NS", "$PEER", "PEER", "$ADDR", "ADDR", "$$", "1", "|", "\\|")

// shown makes a script readable: the names that operations.md uses.
func shown(script string) string {
	var all []string
	for line := range strings.Lines(script) {
		if line = strings.TrimSpace(line); line != "" {
			all = append(all, "`"+shorter.Replace(line)+"`")
		}
	}
	return strings.Join(all, ", ")
}

// row is the situation's line of the table.
func (s *Situation) row() string {
	within := s.Within
	if within == 0 {
		within = 2
	}
	noticed, repaired, named := "-", "-", "-"
	switch s.Outcome {
	case Refused:
		named = "the command fails"
	case Repaired:
		noticed, repaired, named = fmt.Sprintf("within %d s", within), "by the agent", "in the agent's log"
	case Named:
		noticed = fmt.Sprintf("within %d s", within)
		repaired = "no; " + s.remedy()
		named = "`" + strings.Join(s.Words, " … ") + "`"
	}
	harmless := "yes"
	switch {
	case s.Meanwhile != "":
		harmless = s.Meanwhile
	case s.Stops:
		harmless = "traffic stops"
	}
	return fmt.Sprintf("| %s | %s | %s | %s | %s | %s |\n", s.What, s.command(), noticed, repaired, named, harmless)
}

// remedy is what puts everything in force again, as the table shows it.
func (s *Situation) remedy() string {
	if s.Shown != "" {
		return s.Shown
	}
	return strings.Join(slices.DeleteFunc([]string{shown(s.Undo), shown(s.Remedy)}, func(x string) bool { return x == "" }), ", ")
}

// Table is the table of docs/run/administrator.md.
func Table() string {
	var b strings.Builder
	b.WriteString("| what | how | noticed | repaired | named | harmless |\n|---|---|---|---|---|---|\n")
	for _, g := range Groups {
		for _, s := range g.Situations {
			b.WriteString(s.row())
		}
	}
	return b.String()
}
