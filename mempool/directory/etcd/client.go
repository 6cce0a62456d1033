// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/softroce/softroce-xdp/mempool/directory"
)

// answerTime is how long a member of the cluster has to answer, before the next one is asked.
var answerTime = 2 * time.Second

// maxAnswer is the longest answer in bytes.
const maxAnswer = 64 << 20

// client asks the members of an etcd cluster.
type client struct {
	members []string      // "host:port"
	first   atomic.Uint32 // the member that has answered last
}

// request is a question in JSON, and where its answer goes.
type request struct {
	path    string // path of the JSON interface, such as "/v3/kv/range"
	in, out any
}

// do asks the members, until one answers: the one that has answered last first. A member may have executed a request that it did not
// answer: what changes something is conditional, or ends after TTL.
func (c *client) do(ctx context.Context, r request) error {
	body, err := json.Marshal(r.in)
	if err != nil {
		return err
	}
	var failed []error
	first := c.first.Load()
	for i := range uint32(len(c.members)) {
		at := (first + i) % uint32(len(c.members))
		m := c.members[at]
		err := c.ask(ctx, m, r.path, body, r.out)
		var refused *refusedError
		if err == nil || errors.As(err, &refused) && !refused.temporary() {
			c.first.Store(at)
			return err
		}
		failed = append(failed, err)
		if ctx.Err() != nil {
			break
		}
	}
	return fmt.Errorf("%w: %w", directory.ErrUnreachable, errors.Join(failed...))
}

func (c *client) ask(ctx context.Context, host, path string, body []byte, out any) error {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	at := "http://" + host + path
	status, text, answer, err := post(ctx, host, path, body)
	if err != nil {
		return fmt.Errorf("%s: %w", at, err)
	}
	if status != httpOK {
		return refused(at, status, text, answer)
	}
	if err := json.Unmarshal(answer, out); err != nil {
		return fmt.Errorf("%s: no answer of etcd: %w", at, err)
	}
	return nil
}

// refusedError is an answer that is an error.
type refusedError struct {
	at, text string
	status   int
	code     int // status code of gRPC
}

func refused(at string, status int, text string, body []byte) error {
	e := &refusedError{at: at, text: text, status: status}
	var reason struct {
		Error   string `json:"error"`
		Message string `json:"message"`
		Code    int    `json:"code"`
	}
	if json.Unmarshal(body, &reason) == nil {
		e.code = reason.Code
		if text := strings.TrimSpace(reason.Error + " " + reason.Message); text != "" {
			e.text = text
		}
	}
	return e
}

func (e *refusedError) Error() string { return fmt.Sprintf("%s: %s", e.at, e.text) }

// codeNotFound is that of gRPC.
const codeNotFound = 5

// temporary reports whether another member may give another answer: this one has no leader, for example.
func (e *refusedError) temporary() bool { return e.status >= 500 }
