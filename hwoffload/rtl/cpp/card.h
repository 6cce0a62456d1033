// SPDX-License-Identifier: Apache-2.0
//
// The simulated card: the clocks of its RTL, and the memory behind it.
#ifndef SOFTROCE_SIM_CARD_H
#define SOFTROCE_SIM_CARD_H

#include "Vsoftroce_card.h"
#include "verilated.h"

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <unordered_map>

// An access or a packet that takes longer is a fault of the RTL.
constexpr unsigned max_clocks = 1000000;

constexpr uint64_t mask48 = (uint64_t(1) << 48) - 1;

// Memory is the DDR behind the card, by pages. A page that was never written reads 0.
class Memory {
	static constexpr uint64_t page_words = 512;
	using Page = std::array<uint64_t, page_words>;
	std::unordered_map<uint64_t, std::unique_ptr<Page>> pages;

public:
	uint64_t read(uint64_t addr) const
	{
		auto at = pages.find(addr / 8 / page_words);
		return at == pages.end() ? 0 : (*at->second)[addr / 8 % page_words];
	}

	// write writes byte i of a word if bit i of enable is 1.
	void write(uint64_t addr, uint64_t value, unsigned enable)
	{
		auto &page = pages[addr / 8 / page_words];
		uint64_t mask = 0;
		for (unsigned i = 0; i < 8; i++)
			mask |= enable >> i & 1 ? uint64_t(0xff) << 8 * i : 0;
		if (!page)
			page = std::make_unique<Page>();
		uint64_t &word = (*page)[addr / 8 % page_words];
		word = (word & ~mask) | (value & mask);
	}
};

// Card clocks the RTL.
class Card {
	VerilatedContext context;
	Vsoftroce_card top{&context};
	Memory ddr;

	// Reads of the cores that were taken in the clock before.
	static constexpr unsigned n_cores = sizeof(Vsoftroce_card::core_addr) / 8;
	unsigned asked = 0;
	uint64_t asked_addr[n_cores] = {};

public:
	uint64_t cycles = 0;
	bool hold = false; // clocks are those of messages only

	Card()
	{
		top.core_ready = (1u << n_cores) - 1;
		top.rst = 1;
		clock();
		clock();
		top.rst = 0;
		until([this] { return top.ready; });
		cycles = 0;
	}

	// clock is one clock of the card, and of its DDR.
	void clock()
	{
		top.ddr_done = 0;
		if (top.ddr_valid) {
			if (top.ddr_write)
				ddr.write(top.ddr_addr, top.ddr_wdata, top.ddr_enable);
			top.ddr_rdata = ddr.read(top.ddr_addr);
			top.ddr_done = 1;
		}
		if (top.core_valid | top.core_arrived | asked)
			cores();
		top.clk = 1;
		top.eval();
		top.clk = 0;
		top.eval();
		cycles++;
	}

	// cores answers the reads that the cores made in the clock before, and takes those of this clock.
	void cores()
	{
		top.core_arrived = asked;
		for (unsigned i = 0; i < n_cores; i++) {
			uint64_t data = asked >> i & 1 ? ddr.read(asked_addr[i]) : 0;
			top.core_data[2 * i] = uint32_t(data);
			top.core_data[2 * i + 1] = uint32_t(data >> 32);
			asked_addr[i] = top.core_addr[2 * i] | uint64_t(top.core_addr[2 * i + 1]) << 32;
		}
		asked = top.core_valid & top.core_ready;
	}

	// stall has the memory take no reads of the cores.
	void stall(bool on) { top.core_ready = on ? 0 : (1u << n_cores) - 1; }

	// working says that tasks make progress without a message.
	bool working() const { return top.working && top.core_ready && !hold; }

	template <typename Condition> void until(Condition reached)
	{
		for (unsigned n = 0; !reached(); n++) {
			if (n == max_clocks) {
				std::fprintf(stderr, "simulator: no end after %u clocks\n", n);
				std::exit(1);
			}
			clock();
		}
	}

	// access is one access of the register bus, of 4 or 8 bytes.
	uint64_t access(bool write, uint64_t addr, unsigned width, uint64_t value)
	{
		bool high = width == 4 && addr & 4;

		top.bus_valid = 1;
		top.bus_write = write;
		top.bus_addr = addr & ~uint64_t(7);
		top.bus_enable = width == 8 ? 3 : high ? 2 : 1;
		top.bus_wdata = high ? value << 32 : value;
		clock();
		until([this] { return top.bus_done; });
		top.bus_valid = 0;
		value = high ? top.bus_rdata >> 32 : top.bus_rdata;
		return width == 8 ? value : uint32_t(value);
	}

	// packet lets a packet arrive. Its numbers are those of PACKET (sim.go).
	void packet(const uint64_t *v)
	{
		top.pkt_element = v[0];
		top.pkt_at = v[1];
		top.pkt_bytes = v[2];
		top.pkt_flags = v[3];
		top.pkt_feedback = v[3] >> 8 & 1;
		top.pkt_ce = v[3] >> 9 & 1;
		top.pkt_syndrome = v[3] >> 16;
		top.pkt_token = v[4];
		top.pkt_t1 = v[5] & mask48;
		top.pkt_echo_t1 = v[6] & mask48;
		top.pkt_echo_t2 = v[7] & mask48;
		top.pkt_credit = v[8];
		top.pkt_credit_seq = v[8] >> 32;
		top.pkt_valid = 1;
		clock();
		until([this] { return top.pkt_done; });
		top.pkt_valid = 0;
	}

	void set_clock(uint64_t now, bool run)
	{
		top.now_value = now;
		top.now_run = run;
		top.now_set = 1;
		clock();
		top.now_set = 0;
	}
};

#endif
