// SPDX-License-Identifier: Apache-2.0

package exercise

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"math/rand/v2"
)

// pageBytes is the length of a page.
const pageBytes = 4096

// content knows what the memory must have.
type content struct {
	seed     uint64
	versions []uint8 // number of times that each page was written
}

// word is the first word of a page, and step is added from one word to the next. The seed is mixed before: seeds that
// differ in a few bits have no page in common.
func (c *content) word(page int) (word, step uint64) {
	x := mix(c.seed) ^ uint64(page)<<8 ^ uint64(c.versions[page])
	return mix(x), mix(x+1) | 1
}

// mix is the output function of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// write writes a page, with other bytes than the last time.
func (c *content) write(memory []byte, page int) {
	c.versions[page]++
	c.fill(memory[page*pageBytes:][:pageBytes], page)
}

// fill makes b the content of a page.
func (c *content) fill(b []byte, page int) {
	word, step := c.word(page)
	for i := 0; i < pageBytes; i += 8 {
		binary.LittleEndian.PutUint64(b[i:], word)
		word += step
	}
}

// check compares a page.
func (c *content) check(memory []byte, page int) error {
	b := memory[page*pageBytes:][:pageBytes]
	word, step := c.word(page)
	for i := 0; i < pageBytes; i += 8 {
		if got := binary.LittleEndian.Uint64(b[i:]); got != word {
			return fmt.Errorf("%w: byte %#x: %#x instead of %#x", ErrData, page*pageBytes+i, got, word)
		}
		word += step
	}
	return nil
}

// sums returns the sum of all words, and the hash, of what the memory must have.
func (c *content) sums() (sum uint64, hash [sha256.Size]byte) {
	b, h := make([]byte, pageBytes), sha256.New()
	for page := range c.versions {
		c.fill(b, page)
		sum += add(b)
		h.Write(b)
	}
	return sum, sumOf(h)
}

func sumOf(h hash.Hash) (sum [sha256.Size]byte) {
	h.Sum(sum[:0])
	return sum
}

// add returns the sum of the words of b.
func add(b []byte) (sum uint64) {
	for ; len(b) >= 8; b = b[8:] {
		sum += binary.LittleEndian.Uint64(b)
	}
	return sum
}

// pick returns a page: nine of ten are of the first tenth of an order that scatters the pages.
func pick(rnd *rand.Rand, pages int) int {
	at := rnd.IntN(pages)
	if rnd.IntN(10) > 0 {
		at = rnd.IntN(max(1, pages/10))
	}
	return scatter(at, pages)
}

// scatter is a permutation of the pages, by a factor that has no divisor in common with them.
func scatter(at, pages int) int {
	factor := int(0.6180339887*float64(pages)) | 1
	for gcd(factor, pages) != 1 {
		factor += 2
	}
	return int(uint64(at) * uint64(factor) % uint64(pages))
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
