// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"io"
	"log/slog"

	"github.com/spf13/pflag"
)

// LogFlags are the flags of programs that log.
type LogFlags struct{ Level, Format Choice }

// Flags adds the flags.
func (l *LogFlags) Flags(f *pflag.FlagSet) {
	l.Level = Choice{Value: "info", Of: []string{"debug", "info", "warn", "error"}}
	l.Format = Choice{Value: "text", Of: []string{"text", "json"}}
	f.Var(&l.Level, "log-level", "debug, info, warn or error")
	f.Var(&l.Format, "log-format", "text or json")
}

// Logger returns a logger by --log-level and --log-format.
func (l *LogFlags) Logger(w io.Writer) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(l.Level.Value)); err != nil {
		panic("log level " + l.Level.Value + " was accepted before")
	}
	o := &slog.HandlerOptions{Level: level}
	if l.Format.Value == "json" {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}

// AgentLogger is Logger for an agent, which other hosts and local users can cause to write lines: it limits them.
func (l *LogFlags) AgentLogger(w io.Writer) *slog.Logger {
	return slog.New(limitLines(l.Logger(w).Handler()))
}
