// SPDX-License-Identifier: Apache-2.0

package exercise

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// ErrData: the memory does not have what was written to it.
var ErrData = errors.New("wrong data")

// Config is the work.
type Config struct {
	Seed     uint64
	Accesses int // accesses of the step random
}

// Step is what a step took.
type Step struct {
	Name    string        `json:"name"`
	Took    time.Duration `json:"took_ns"`
	Bytes   uint64        `json:"bytes"`
	PageIns *Times        `json:"page_ins,omitempty"` // times of first accesses to pages that were not in memory, in the step random
	Hash    string        `json:"sha256,omitempty"`   // hash of the memory in the step hash, in hexadecimal digits
}

// Rate returns bytes per second.
func (s Step) Rate() float64 { return float64(s.Bytes) / max(s.Took.Seconds(), 1e-9) }

// Times describes the times of single accesses, in nanoseconds.
type Times struct {
	Count int64 `json:"count"`
	P50   int64 `json:"p50_ns"`
	P99   int64 `json:"p99_ns"`
	Max   int64 `json:"max_ns"`
}

// Result is what Run returns.
type Result struct {
	Steps []Step `json:"steps"`
}

// Step returns a step by its name.
func (r *Result) Step(name string) Step {
	for _, s := range r.Steps {
		if s.Name == name {
			return s
		}
	}
	return Step{}
}

// Hash is that of the whole memory.
func (r *Result) Hash() string { return r.Step("hash").Hash }

// Took is the time of all steps.
func (r *Result) Took() (sum time.Duration) {
	for _, s := range r.Steps {
		sum += s.Took
	}
	return sum
}

// work is a run.
type work struct {
	Config
	memory  []byte
	content content
	touched byte // sum that keeps accesses from being optimised away
}

// Run does the work on memory, whose length is a multiple of 4096 and which begins at a page. after
// is called at the end of each step, and its error ends the work. An error that wraps ErrData is memory whose content is wrong.
func Run(ctx context.Context, memory []byte, c Config, after func(Step) error) (Result, error) {
	if len(memory) == 0 || len(memory)%pageBytes != 0 {
		return Result{}, fmt.Errorf("exercise: %d bytes of memory; a multiple of %d is needed", len(memory), pageBytes)
	}
	w := work{Config: c, memory: memory, content: content{seed: c.Seed, versions: make([]uint8, len(memory)/pageBytes)}}
	var r Result
	for _, step := range []struct {
		name string
		do   func(context.Context, *Step) error
	}{
		{"fill", w.fill}, {"random", w.random}, {"scan", w.scan}, {"hash", w.hash},
	} {
		s := Step{Name: step.name}
		if err := step.do(ctx, &s); err != nil {
			return r, fmt.Errorf("%s: %w", step.name, err)
		}
		r.Steps = append(r.Steps, s)
		if err := after(s); err != nil {
			return r, err
		}
	}
	return r, nil
}

func (w *work) pages() int { return len(w.content.versions) }

func (w *work) fill(ctx context.Context, s *Step) error {
	start := time.Now()
	for page := range w.pages() {
		if page%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		w.content.write(w.memory, page)
	}
	s.Took, s.Bytes = time.Since(start), uint64(len(w.memory))
	return nil
}

func (w *work) random(ctx context.Context, s *Step) error {
	rnd := rand.New(rand.NewPCG(w.Seed, 1))
	times := hdrhistogram.New(100, int64(time.Minute), 3)
	for i := range w.Accesses {
		if i%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		page, write := pick(rnd, w.pages()), rnd.IntN(2) == 0
		in, err := inMemory(w.memory[page*pageBytes:][:pageBytes])
		if err != nil {
			return err
		}
		start := time.Now()
		w.touched += w.memory[page*pageBytes]
		first := time.Since(start)
		if err := w.content.check(w.memory, page); err != nil {
			return err
		}
		if write {
			w.content.write(w.memory, page)
		}
		s.Took += time.Since(start)
		if !in {
			if err := times.RecordValue(min(int64(first), int64(time.Minute))); err != nil {
				return err
			}
		}
	}
	s.Bytes = uint64(w.Accesses) * pageBytes
	s.PageIns = &Times{Count: times.TotalCount(), P50: times.ValueAtQuantile(50), P99: times.ValueAtQuantile(99), Max: times.Max()}
	return nil
}

func (w *work) scan(ctx context.Context, s *Step) error {
	want, _ := w.content.sums()
	start, sum := time.Now(), uint64(0)
	for page := range w.pages() {
		if page%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		sum += add(w.memory[page*pageBytes:][:pageBytes])
	}
	s.Took, s.Bytes = time.Since(start), uint64(len(w.memory))
	if sum != want {
		return fmt.Errorf("%w: the sum of all words is %#x instead of %#x", ErrData, sum, want)
	}
	return nil
}

func (w *work) hash(ctx context.Context, s *Step) error {
	_, want := w.content.sums()
	start, h := time.Now(), sha256.New()
	for page := range w.pages() {
		if page%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		h.Write(w.memory[page*pageBytes:][:pageBytes])
	}
	got := sumOf(h)
	s.Took, s.Bytes = time.Since(start), uint64(len(w.memory))
	if got != want {
		return fmt.Errorf("%w: the hash is %x instead of %x", ErrData, got, want)
	}
	s.Hash = hex.EncodeToString(got[:])
	return nil
}
