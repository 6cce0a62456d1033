// SPDX-License-Identifier: Apache-2.0

package rxepeer

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// monitor is the host's end of qemu's control channel (QMP): one command at a time.
type monitor struct {
	conn *os.File
	dec  *json.Decoder
}

// openMonitor ends the negotiation with which the channel begins.
func openMonitor(ctx context.Context, conn *os.File) (*monitor, error) {
	m := &monitor{conn, json.NewDecoder(conn)}
	return m, m.do(ctx, "qmp_capabilities", nil, nil)
}

// do executes a command and stores what it returns. Greeting and events are skipped.
func (m *monitor) do(ctx context.Context, command string, args map[string]any, reply any) error {
	defer interrupt(ctx, m.conn)()
	request := map[string]any{"execute": command}
	if args != nil {
		request["arguments"] = args
	}
	b, err := json.Marshal(request)
	if err != nil {
		return err
	}
	if _, err := m.conn.Write(append(b, '\n')); err != nil {
		return fmt.Errorf("qemu's monitor: %s: %w", command, err)
	}
	for {
		var got struct {
			Return json.RawMessage
			Error  *struct{ Desc string }
		}
		if err := m.dec.Decode(&got); err != nil {
			return fmt.Errorf("qemu's monitor: %s: %w", command, err)
		}
		switch {
		case got.Error != nil:
			return fmt.Errorf("qemu's monitor: %s: %s", command, got.Error.Desc)
		case got.Return != nil && reply != nil:
			return json.Unmarshal(got.Return, reply)
		case got.Return != nil:
			return nil
		}
	}
}

// save stores the devices of the machine in the folder of its state, where its memory is already, and
// ends the machine.
func (m *monitor) save(ctx context.Context, state string) error {
	if err := m.migrate(ctx, "migrate", state); err != nil {
		return err
	}
	return m.do(ctx, "quit", nil, nil)
}

// restore makes qemu, which has the memory, continue with the devices as they were.
func (m *monitor) restore(ctx context.Context, state string) error {
	// Nor does qemu announce the addresses that the cards had: they are about to change.
	if err := m.do(ctx, "migrate-set-parameters", map[string]any{"announce-rounds": 0}, nil); err != nil {
		return err
	}
	return m.migrate(ctx, "migrate-incoming", state)
}

// migrate executes a command that goes on by itself, and returns when it has ended.
func (m *monitor) migrate(ctx context.Context, command, state string) error {
	// Memory in a file is not sent.
	ignore := []map[string]any{{"capability": "x-ignore-shared", "state": true}}
	if err := m.do(ctx, "migrate-set-capabilities", map[string]any{"capabilities": ignore}, nil); err != nil {
		return err
	}
	if err := m.do(ctx, command, map[string]any{"uri": "file:" + filepath.Join(state, devicesFile)}, nil); err != nil {
		return err
	}
	for {
		var now struct {
			Status string
			Desc   string `json:"error-desc"`
		}
		if err := m.do(ctx, "query-migrate", nil, &now); err != nil {
			return err
		}
		switch now.Status {
		case "completed":
			return nil
		case "failed", "cancelled":
			return fmt.Errorf("qemu's monitor: %s %s: %s", command, now.Status, now.Desc)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("qemu's monitor: %s: %w", command, ctx.Err())
		case <-time.After(5 * time.Millisecond):
		}
	}
}
