// SPDX-License-Identifier: Apache-2.0

package device

// PassRights sets whether processes that connect from now on may pass descriptors before their hello. Before Linux
// 6.16 they always may.
func (s *Server) PassRights(on bool) { passRights(s.listener, on) }
