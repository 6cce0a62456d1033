// SPDX-License-Identifier: Apache-2.0

package devtest

// exception is what does not apply to a register, and why.
type exception struct {
	live    bool // the card changes its value at any time
	noWrite bool // a write has effects on other registers, or the card accepts only some values
	why     string
}

// exceptions are by block and register. A register is not listed because a test of it is hard:
// the definition says that a driver reads what it wrote.
var exceptions = map[string]exception{
	"calls.active":   {live: true, why: "it follows the field queued of block dest"},
	"calls.now_ns":   {live: true, why: "it is a clock"},
	"ident.build_id": {live: true, why: "each build of a card has its own"},

	"ident.capabilities": {live: true, why: "each card has its own, and cores of a model start and end"},
}

// Exceptions returns the reasons by block and register.
func Exceptions() map[string]string {
	all := map[string]string{}
	for name, e := range exceptions {
		all[name] = e.why
	}
	return all
}
