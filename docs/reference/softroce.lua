-- SPDX-License-Identifier: Apache-2.0
--
-- Wireshark dissector of softroce-xdp: the opcodes 0xC0..0xCF and the stamp option, as
-- docs/reference/wire-format.md describes them. Wireshark's own dissector reads everything up to the BTH.
--
--     wireshark -X lua_script:softroce.lua FILE
--     tshark -X lua_script:softroce.lua -V -r FILE
--
-- The file may also be put into the folder of personal Lua plugins (Help > About > Folders).

local softroce = Proto("softroce", "softroce-xdp")

local opcodes = {
  [0xC0] = "HELLO", [0xC1] = "HELLO_ACK", [0xC2] = "CREDIT_GRANT", [0xC3] = "CREDIT_RETURN",
  [0xC4] = "SACK", [0xC5] = "RATE_LIMIT", [0xC6] = "ECHO", [0xC8] = "OWRITE", [0xC9] = "OREAD_REQ", [0xCA] = "OREAD_RESP",
  [0xCC] = "OACK", [0xCD] = "ONOTIFY", [0xCE] = "ONOTIFY_ACK", [0xCF] = "ONAK",
}
local nak_codes = {
  [1] = "invalid request", [2] = "remote access", [3] = "remote operation", [0x20] = "not ready",
}

local fields = {}

local function field(kind, name, title, ...)
  local f = ProtoField[kind]("softroce." .. name, title, ...)
  fields[#fields + 1] = f
  return f
end

local opcode_field = field("uint8", "opcode", "Opcode", base.HEX, opcodes)

-- A layout is a list of {offset, length, field}. Lengths are bytes; all values are big-endian.
local message = field("uint32", "message", "Message id")
local layouts = {}

layouts.hello = {
  { 0, 2, field("uint16", "hello.version", "Version") },
  { 4, 4, field("uint32", "hello.node", "Node") },
  { 8, 4, field("uint32", "hello.caps", "Capabilities", base.HEX) },
  { 12, 4, field("uint32", "hello.link_mbps", "Link rate (Mbit/s)") },
  { 16, 8, field("uint64", "hello.nonce", "Nonce", base.HEX) },
  { 24, 8, field("uint64", "hello.token", "Token", base.HEX) },
}

local credit = {
  { 0, 2, field("uint16", "credit.version", "Version") },
  { 2, 2, field("uint16", "credit.flags", "Flags", base.HEX) },
  { 4, 4, field("uint32", "credit.epoch", "Epoch") },
  { 8, 4, field("uint32", "credit.limit", "Limit (bytes)") },
  { 12, 2, field("uint16", "credit.seq", "Number of the grant") },
}

local function extended(list, more)
  local all = {}
  for _, l in ipairs({ list, more }) do
    for _, e in ipairs(l) do all[#all + 1] = e end
  end
  return all
end

layouts.grant = extended(credit, { { 16, 8, field("uint64", "credit.life_ns", "Life (ns)") } })
layouts.giveback = extended(credit, {
  { 16, 4, field("uint32", "credit.sent", "Sent (bytes)") },
  { 20, 4, field("uint32", "credit.void", "Void (bytes)") },
})

layouts.sack = {
  { 0, 1, field("uint8", "sack.syndrome", "Syndrome", base.HEX) },
  { 1, 3, field("uint24", "sack.msn", "MSN") },
  { 4, 8, field("uint64", "sack.bitmap_hi", "Bits 127 to 64", base.HEX) },
  { 12, 8, field("uint64", "sack.bitmap_lo", "Bits 63 to 0", base.HEX) },
}

layouts.ratelimit = {
  { 0, 2, field("uint16", "rate_limit.version", "Version") },
  { 4, 4, field("uint32", "rate_limit.epoch", "Epoch") },
  { 8, 8, field("uint64", "rate_limit.rate_bps", "Rate (bit/s)") },
  { 16, 8, field("uint64", "rate_limit.life_ns", "Life (ns)") },
}

layouts.oeth = {
  { 0, 1, field("uint8", "oeth.version", "Version", base.DEC, nil, 0xF0) },
  { 0, 1, field("bool", "oeth.first", "First packet", 8, nil, 0x01) },
  { 0, 1, field("bool", "oeth.last", "Last packet", 8, nil, 0x02) },
  { 0, 1, field("bool", "oeth.retry", "Retransmission", 8, nil, 0x04) },
  { 0, 1, field("bool", "oeth.solicited", "Solicited notification", 8, nil, 0x08) },
  { 1, 3, field("uint24", "oeth.index", "Packet index") },
  { 4, 4, message },
  { 8, 8, field("uint64", "oeth.va", "Virtual address of this packet", base.HEX) },
  { 16, 4, field("uint32", "oeth.rkey", "Remote key", base.HEX) },
  { 20, 4, field("uint32", "oeth.length", "Length of this packet") },
}

layouts.oack = {
  { 0, 4, message },
  { 4, 3, field("uint24", "oack.cumulative", "Cumulative PSN") },
  { 8, 3, field("uint24", "oack.base", "PSN of bit 0") },
  { 12, 8, field("uint64", "oack.bitmap", "Arrived", base.HEX) },
  { 20, 2, field("uint16", "oack.window", "Window limit (packets)") },
  { 22, 2, field("uint16", "oack.out_of_order", "Out-of-order packets") },
  { 24, 4, field("uint32", "oack.echo_us", "Echoed send time (us)") },
}

layouts.onotify = {
  { 0, 4, message },
  { 4, 4, field("uint32", "onotify.queue", "Notification receive queue") },
  { 8, 8, field("uint64", "onotify.descriptor", "Descriptor", base.HEX) },
  { 16, 4, field("uint32", "onotify.length", "Length of the message") },
  { 20, 4, field("uint32", "onotify.status", "Status", base.HEX) },
}

layouts.onotifyack = {
  { 0, 4, message },
  { 4, 4, field("uint32", "onotify_ack.echo_us", "Echoed send time (us)") },
}

layouts.onak = {
  { 0, 4, message },
  { 4, 1, field("uint8", "onak.code", "Code", base.HEX, nak_codes) },
}

local by_opcode = {
  [0xC0] = { 32, layouts.hello }, [0xC1] = { 32, layouts.hello },
  [0xC2] = { 32, layouts.grant }, [0xC3] = { 32, layouts.giveback },
  [0xC4] = { 20, layouts.sack }, [0xC5] = { 32, layouts.ratelimit }, [0xC6] = { 32, {} },
  [0xC8] = { 24, layouts.oeth }, [0xC9] = { 24, layouts.oeth }, [0xCA] = { 24, layouts.oeth },
  [0xCC] = { 28, layouts.oack }, [0xCD] = { 24, layouts.onotify },
  [0xCE] = { 8, layouts.onotifyack }, [0xCF] = { 8, layouts.onak },
}

-- The stamp option: UDP option kind 127, length 38, ExID 0x5352. Times are ns modulo 2^48.
local stamp = {
  { 0, 2, field("uint16", "stamp.ocs", "Option checksum", base.HEX) },
  { 6, 1, field("uint8", "stamp.flags", "Flags", base.HEX) },
  { 7, 1, field("uint8", "stamp.version", "Version") },
  { 8, 8, field("uint64", "stamp.token", "Token", base.HEX) },
  { 16, 6, field("uint64", "stamp.t1", "T1 (ns)") },
  { 22, 6, field("uint64", "stamp.echo_t1", "Echo of T1 (ns)") },
  { 28, 6, field("uint64", "stamp.echo_t2", "T2 of the echo (ns)") },
  { 34, 4, field("uint32", "stamp.credit", "Credit (bytes)") },
  { 38, 2, field("uint16", "stamp.credit_seq", "Number of the grant") },
}
local stamp_length = 40

softroce.fields = fields

local bth_opcode = Field.new("infiniband.bth.opcode")
local udp_length = Field.new("udp.length")
local ip_header = Field.new("ip.hdr_len")
local ip_length = Field.new("ip.len")
local ipv6_length = Field.new("ipv6.plen")

local function add(tree, range, layout)
  for _, e in ipairs(layout) do tree:add(e[3], range(e[1], e[2])) end
end

-- add_stamp shows the option between the end of the UDP datagram and the end of the IP datagram.
local function add_stamp(tvb, root, bth)
  local length = udp_length()
  if not length then return end
  local from = bth - 8 + length.value
  local surplus
  if ip_length() then
    surplus = ip_length().value - ip_header().value - length.value
  elseif ipv6_length() then
    surplus = ipv6_length().value - length.value
  end
  if surplus ~= stamp_length or from + stamp_length > tvb:len() then return end
  local range = tvb(from, stamp_length)
  if range(2, 2):uint() ~= 0x7F26 or range(4, 2):uint() ~= 0x5352 then return end
  add(root:add(softroce, range, "softroce-xdp stamp option"), range, stamp)
end

function softroce.dissector(tvb, pinfo, root)
  local opcode = bth_opcode()
  if not opcode then return end
  add_stamp(tvb, root, opcode.offset)
  local known = by_opcode[opcode.value]
  local from = opcode.offset + 12
  if not known or from + known[1] > tvb:len() then return end
  local range = tvb(from, known[1])
  local name = opcodes[opcode.value]
  local tree = root:add(softroce, range, "softroce-xdp " .. name)
  tree:add(opcode_field, tvb(opcode.offset, 1))
  add(tree, range, known[2])
  pinfo.cols.info:append(" [" .. name .. "]")
end

register_postdissector(softroce)
