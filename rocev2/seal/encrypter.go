// SPDX-License-Identifier: Apache-2.0

package seal

// PKey is the P_Key of encrypted packets. It keeps a plain queue pair from taking an encrypted packet for
// data, and tells a receiver why it must refuse a packet. It is not authentication: the tag is.
const PKey = 0xC0DE

// Encrypter is an optional interface of a verbs.QP: one that can be encrypted.
type Encrypter interface {
	// Encrypt gives a queue pair its keys, in RESET or INIT and before it has sent anything. From then on,
	// until RESET, it sends and takes encrypted packets only.
	Encrypt(k Keys, l Limits) error
}
