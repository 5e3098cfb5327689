-- SPDX-License-Identifier: Apache-2.0
--
-- Wireshark dissector of the Strait wire format, version 1 (doc/wire.md).
--
--   tshark -X lua_script:tools/wireshark/strait.lua -r capture.pcapng
--   tshark -X lua_script:.. -o strait.key_log:/path/of/keys -O strait -r capture.pcapng
--
-- or without -X when it is in Wireshark's plugin directory, where the Debian package strait-tools
-- puts it, as does `make install` with the prefix and libdir of Wireshark. The clear header is
-- always dissected. With an edge's key log (debug.key_log) packets are opened, tags checked, frames
-- dissected. Ports other than 4790: "Decode As" (-d udp.port==N,strait).
--
-- Wireshark's Lua of many versions has no ciphers, so AES-256-GCM and HKDF with SHA-384 are here in
-- Lua: some milliseconds a packet of full size, which is what to expect of a debugging tool.

local strait = Proto("strait", "Strait")
strait.prefs.key_log = Pref.string("Key log", "", "Path of an edge's debug.key_log")
strait.prefs.generations = Pref.uint("Key generations", 4096,
	"Open no packets of later ones; a session enters one a minute, or every 8388608 packets")

local bit = bit or bit32
local band, bor, bxor = bit.band, bit.bor, bit.bxor
local lshift, rshift = bit.lshift, bit.rshift
local byte, char, sub, rep = string.byte, string.char, string.sub, string.rep
local TWO32 = 4294967296

-- ---- SHA-384, HMAC, HKDF-Expand-Label ----------------------------------------------------------
-- A 64-bit word is two numbers, high half first, both from 0 to 2^32 - 1.

local SHA_K = {
	0x428a2f98,0xd728ae22,0x71374491,0x23ef65cd,0xb5c0fbcf,0xec4d3b2f,0xe9b5dba5,0x8189dbbc,
	0x3956c25b,0xf348b538,0x59f111f1,0xb605d019,0x923f82a4,0xaf194f9b,0xab1c5ed5,0xda6d8118,
	0xd807aa98,0xa3030242,0x12835b01,0x45706fbe,0x243185be,0x4ee4b28c,0x550c7dc3,0xd5ffb4e2,
	0x72be5d74,0xf27b896f,0x80deb1fe,0x3b1696b1,0x9bdc06a7,0x25c71235,0xc19bf174,0xcf692694,
	0xe49b69c1,0x9ef14ad2,0xefbe4786,0x384f25e3,0x0fc19dc6,0x8b8cd5b5,0x240ca1cc,0x77ac9c65,
	0x2de92c6f,0x592b0275,0x4a7484aa,0x6ea6e483,0x5cb0a9dc,0xbd41fbd4,0x76f988da,0x831153b5,
	0x983e5152,0xee66dfab,0xa831c66d,0x2db43210,0xb00327c8,0x98fb213f,0xbf597fc7,0xbeef0ee4,
	0xc6e00bf3,0x3da88fc2,0xd5a79147,0x930aa725,0x06ca6351,0xe003826f,0x14292967,0x0a0e6e70,
	0x27b70a85,0x46d22ffc,0x2e1b2138,0x5c26c926,0x4d2c6dfc,0x5ac42aed,0x53380d13,0x9d95b3df,
	0x650a7354,0x8baf63de,0x766a0abb,0x3c77b2a8,0x81c2c92e,0x47edaee6,0x92722c85,0x1482353b,
	0xa2bfe8a1,0x4cf10364,0xa81a664b,0xbc423001,0xc24b8b70,0xd0f89791,0xc76c51a3,0x0654be30,
	0xd192e819,0xd6ef5218,0xd6990624,0x5565a910,0xf40e3585,0x5771202a,0x106aa070,0x32bbd1b8,
	0x19a4c116,0xb8d2d0c8,0x1e376c08,0x5141ab53,0x2748774c,0xdf8eeb99,0x34b0bcb5,0xe19b48a8,
	0x391c0cb3,0xc5c95a63,0x4ed8aa4a,0xe3418acb,0x5b9cca4f,0x7763e373,0x682e6ff3,0xd6b2b8a3,
	0x748f82ee,0x5defb2fc,0x78a5636f,0x43172f60,0x84c87814,0xa1f0ab72,0x8cc70208,0x1a6439ec,
	0x90befffa,0x23631e28,0xa4506ceb,0xde82bde9,0xbef9a3f7,0xb2c67915,0xc67178f2,0xe372532b,
	0xca273ece,0xea26619c,0xd186b8c7,0x21c0c207,0xeada7dd6,0xcde0eb1e,0xf57d4f7f,0xee6ed178,
	0x06f067aa,0x72176fba,0x0a637dc5,0xa2c898a6,0x113f9804,0xbef90dae,0x1b710b35,0x131c471b,
	0x28db77f5,0x23047d84,0x32caab7b,0x40c72493,0x3c9ebe0a,0x15c9bebc,0x431d67c4,0x9c100d4c,
	0x4cc5d4be,0xcb3e42b6,0x597f299c,0xfc657e2a,0x5fcb6fab,0x3ad6faec,0x6c44198c,0x4a475817,
}
local SHA_H = {
	0xcbbb9d5d,0xc1059ed8,0x629a292a,0x367cd507,0x9159015a,0x3070dd17,0x152fecd8,0xf70e5939,
	0x67332667,0xffc00b31,0x8eb44a87,0x68581511,0xdb0c2e0d,0x64f98fa7,0x47b5481d,0xbefa4fa4,
}

local function xor3(a, b, c)
	return bxor(bxor(a, b), c) % TWO32
end

-- The high half of a word rotated right by n; swap the arguments for the low half.
local function rotated(hi, lo, n)
	if n >= 32 then
		hi, lo, n = lo, hi, n - 32
	end
	return n == 0 and hi or bor(rshift(hi, n), lshift(lo, 32 - n)) % TWO32
end

local function rotations(hi, lo, a, b, c)
	return xor3(rotated(hi, lo, a), rotated(hi, lo, b), rotated(hi, lo, c)),
		xor3(rotated(lo, hi, a), rotated(lo, hi, b), rotated(lo, hi, c))
end

-- Two rotations and a shift.
local function rotations_shift(hi, lo, a, b, c)
	return xor3(rotated(hi, lo, a), rotated(hi, lo, b), rshift(hi, c)),
		xor3(rotated(lo, hi, a), rotated(lo, hi, b), bor(rshift(lo, c), lshift(hi, 32 - c)))
end

-- Sum of words given as two equally long lists.
local function sum(his, los)
	local hi, lo = 0, 0
	for i = 1, #los do
		hi, lo = hi + his[i], lo + los[i]
	end
	return (hi + math.floor(lo / TWO32)) % TWO32, lo % TWO32
end

local function sha_block(state, block)
	local wh, wl = {}, {}
	for i = 1, 16 do
		local a, b, c, d, e, f, g, h = byte(block, 8 * i - 7, 8 * i)
		wh[i] = ((a * 256 + b) * 256 + c) * 256 + d
		wl[i] = ((e * 256 + f) * 256 + g) * 256 + h
	end
	for i = 17, 80 do
		local h0, l0 = rotations_shift(wh[i - 15], wl[i - 15], 1, 8, 7)
		local h1, l1 = rotations_shift(wh[i - 2], wl[i - 2], 19, 61, 6)
		wh[i], wl[i] = sum({ h0, h1, wh[i - 16], wh[i - 7] }, { l0, l1, wl[i - 16], wl[i - 7] })
	end
	local v = {}
	for i = 1, 16 do
		v[i] = state[i]
	end
	for i = 1, 80 do
		local eh, el = v[9], v[10]
		local s1h, s1l = rotations(eh, el, 14, 18, 41)
		local chh = bxor(band(eh, v[11]), band(bit.bnot(eh), v[13])) % TWO32
		local chl = bxor(band(el, v[12]), band(bit.bnot(el), v[14])) % TWO32
		local t1h, t1l = sum({ v[15], s1h, chh, SHA_K[2 * i - 1], wh[i] },
			{ v[16], s1l, chl, SHA_K[2 * i], wl[i] })
		local s0h, s0l = rotations(v[1], v[2], 28, 34, 39)
		local mah = xor3(band(v[1], v[3]), band(v[1], v[5]), band(v[3], v[5]))
		local mal = xor3(band(v[2], v[4]), band(v[2], v[6]), band(v[4], v[6]))
		for j = 16, 3, -1 do
			v[j] = v[j - 2]
		end
		v[9], v[10] = sum({ v[9], t1h }, { v[10], t1l })
		v[1], v[2] = sum({ t1h, s0h, mah }, { t1l, s0l, mal })
	end
	for i = 1, 16, 2 do
		state[i], state[i + 1] = sum({ state[i], v[i] }, { state[i + 1], v[i + 1] })
	end
end

local function be32(n)
	return char(math.floor(n / 16777216) % 256, math.floor(n / 65536) % 256,
		math.floor(n / 256) % 256, n % 256)
end

local function sha384(text)
	local state = {}
	for i = 1, 16 do
		state[i] = SHA_H[i]
	end
	local padded = text .. "\128" .. rep("\0", (111 - #text) % 128 + 12) .. be32(#text * 8)
	for at = 1, #padded, 128 do
		sha_block(state, sub(padded, at, at + 127))
	end
	local out = {}
	for i = 1, 12 do
		out[i] = be32(state[i])
	end
	return table.concat(out)
end

-- Keys here are never longer than a block.
local function hmac(key, text)
	local inner, outer = {}, {}
	for i = 1, 128 do
		local k = byte(key, i) or 0
		inner[i], outer[i] = char(bxor(k, 0x36)), char(bxor(k, 0x5c))
	end
	return sha384(table.concat(outer) .. sha384(table.concat(inner) .. text))
end

-- RFC 8446 section 7.1, for at most one hash of output.
local function expand_label(secret, label, context, len)
	label = "tls13 " .. label
	local info = char(math.floor(len / 256), len % 256, #label) .. label .. char(#context) .. context
	return sub(hmac(secret, info .. "\1"), 1, len)
end

-- ---- AES-256 -----------------------------------------------------------------------------------

local SBOX, T0, T1, T2, T3 = {}, {}, {}, {}, {}
do
	local function xtime(a)
		a = a * 2
		return a >= 256 and bxor(a - 256, 0x1b) or a
	end
	-- Powers of 3, a generator, and from them inverses.
	local power, log, x = {}, {}, 1
	for i = 0, 254 do
		power[i], log[x] = x, i
		x = bxor(x, xtime(x))
	end
	for i = 0, 255 do
		local s = i == 0 and 0 or power[(255 - log[i]) % 255]
		local r = s
		for _ = 1, 4 do
			r = r * 2
			r = r >= 256 and r - 255 or r
			s = bxor(s, r)
		end
		s = bxor(s, 0x63)
		SBOX[i] = s
		local d = xtime(s)
		local t = bxor(d, s)
		T0[i] = ((d * 256 + s) * 256 + s) * 256 + t
		T1[i] = ((t * 256 + d) * 256 + s) * 256 + s
		T2[i] = ((s * 256 + t) * 256 + d) * 256 + s
		T3[i] = ((s * 256 + s) * 256 + t) * 256 + d
	end
end

local function words(text, at, n)
	local out = {}
	for i = 1, n do
		local a, b, c, d = byte(text, at + 4 * i - 4, at + 4 * i - 1)
		out[i] = ((a * 256 + b) * 256 + c) * 256 + d
	end
	return out
end

local function sub_word(w)
	w = w % TWO32
	return ((SBOX[math.floor(w / 16777216)] * 256 + SBOX[math.floor(w / 65536) % 256]) * 256 +
		SBOX[math.floor(w / 256) % 256]) * 256 + SBOX[w % 256]
end

-- The 60 words of the key schedule.
local function aes_schedule(key)
	local w, rcon = words(key, 1, 8), 1
	for i = 9, 60 do
		local t = w[i - 1]
		if i % 8 == 1 then
			t = bxor(sub_word((t % 16777216) * 256 + math.floor(t / 16777216)), rcon * 16777216)
			rcon = rcon * 2
		elseif i % 8 == 5 then
			t = sub_word(t)
		end
		w[i] = bxor(w[i - 8], t) % TWO32
	end
	return w
end

local function aes(w, a, b, c, d)
	a, b, c, d = bxor(a, w[1]), bxor(b, w[2]), bxor(c, w[3]), bxor(d, w[4])
	for i = 5, 53, 4 do
		a, b, c, d =
			bxor(T0[rshift(a, 24)], T1[band(rshift(b, 16), 255)], T2[band(rshift(c, 8), 255)],
				T3[band(d, 255)], w[i]),
			bxor(T0[rshift(b, 24)], T1[band(rshift(c, 16), 255)], T2[band(rshift(d, 8), 255)],
				T3[band(a, 255)], w[i + 1]),
			bxor(T0[rshift(c, 24)], T1[band(rshift(d, 16), 255)], T2[band(rshift(a, 8), 255)],
				T3[band(b, 255)], w[i + 2]),
			bxor(T0[rshift(d, 24)], T1[band(rshift(a, 16), 255)], T2[band(rshift(b, 8), 255)],
				T3[band(c, 255)], w[i + 3])
	end
	local function last(p, q, r, s, k)
		local v = ((SBOX[rshift(p, 24)] * 256 + SBOX[band(rshift(q, 16), 255)]) * 256 +
			SBOX[band(rshift(r, 8), 255)]) * 256 + SBOX[band(s, 255)]
		return bxor(v, k) % TWO32
	end
	return last(a, b, c, d, w[57]), last(b, c, d, a, w[58]), last(c, d, a, b, w[59]),
		last(d, a, b, c, w[60])
end

-- ---- GCM ---------------------------------------------------------------------------------------

-- What a byte that is shifted out at the low end does to the high word.
local REDUCE = {}
for i = 0, 255 do
	local low, top = i, 0
	for _ = 1, 8 do
		local carry = (low % 2 == 1)
		low = math.floor(low / 2)
		top = rshift(top, 1) % TWO32
		if carry then
			top = bxor(top, 0xe1000000) % TWO32
		end
	end
	REDUCE[i] = top
end

-- Multiples of H by every byte (Shoup's tables): 4 words each, at 4 * byte + 1.
local function ghash_table(h)
	local m = {}
	for i = 1, 4 do
		m[i], m[4 * 128 + i] = 0, h[i]
	end
	local v, i = { h[1], h[2], h[3], h[4] }, 64
	while i >= 1 do
		local odd = v[4] % 2 == 1
		for j = 4, 2, -1 do
			v[j] = math.floor(v[j] / 2) + (v[j - 1] % 2) * 2147483648
		end
		v[1] = math.floor(v[1] / 2)
		if odd then
			v[1] = bxor(v[1], 0xe1000000) % TWO32
		end
		for j = 1, 4 do
			m[4 * i + j] = v[j]
		end
		i = math.floor(i / 2)
	end
	local high = 2
	while high <= 128 do
		for low = 1, high - 1 do
			for j = 1, 4 do
				m[4 * (high + low) + j] = bxor(m[4 * high + j], m[4 * low + j]) % TWO32
			end
		end
		high = high * 2
	end
	return m
end

-- text in whole blocks.
local function ghash(m, text)
	local a, b, c, d = 0, 0, 0, 0
	for at = 1, #text, 16 do
		local x = words(text, at, 4)
		a, b, c, d = bxor(a, x[1]), bxor(b, x[2]), bxor(c, x[3]), bxor(d, x[4])
		local p, q, r, s = 0, 0, 0, 0
		for _, word in ipairs({ d, c, b, a }) do
			for shift = 0, 24, 8 do
				local i = 4 * band(rshift(word, shift), 255)
				local out = band(s, 255)
				s = bxor(bor(rshift(s, 8), lshift(r, 24)), m[i + 4])
				r = bxor(bor(rshift(r, 8), lshift(q, 24)), m[i + 3])
				q = bxor(bor(rshift(q, 8), lshift(p, 24)), m[i + 2])
				p = bxor(rshift(p, 8), REDUCE[out], m[i + 1])
			end
		end
		a, b, c, d = p, q, r, s
	end
	return a % TWO32, b % TWO32, c % TWO32, d % TWO32
end

local function padded(text)
	return text .. rep("\0", -#text % 16)
end

local function gcm_key(key)
	local w = aes_schedule(key)
	return { w = w, m = ghash_table({ aes(w, 0, 0, 0, 0) }) }
end

-- The plaintext, or nil when the tag does not hold.
local function gcm_open(key, nonce, aad, ciphertext, tag)
	local n = words(nonce, 1, 3)
	local a, b, c, d = ghash(key.m, padded(aad) .. padded(ciphertext) ..
		be32(0) .. be32(#aad * 8) .. be32(0) .. be32(#ciphertext * 8))
	local e, f, g, h = aes(key.w, n[1], n[2], n[3], 1)
	local want = be32(bxor(a, e) % TWO32) .. be32(bxor(b, f) % TWO32) ..
		be32(bxor(c, g) % TWO32) .. be32(bxor(d, h) % TWO32)
	if want ~= tag then
		return nil
	end
	local whole, out = padded(ciphertext), {}
	for at = 1, #whole, 16 do
		local x = words(whole, at, 4)
		e, f, g, h = aes(key.w, n[1], n[2], n[3], (at - 1) / 16 + 2)
		out[#out + 1] = be32(bxor(x[1], e) % TWO32) .. be32(bxor(x[2], f) % TWO32) ..
			be32(bxor(x[3], g) % TWO32) .. be32(bxor(x[4], h) % TWO32)
	end
	return sub(table.concat(out), 1, #ciphertext)
end

-- ---- key log -----------------------------------------------------------------------------------
-- STRAIT_SESSION_SECRET <initiator's id><responder's id> <secret>

local function unhex(text)
	return (text:gsub("%x%x", function(pair) return char(tonumber(pair, 16)) end))
end

local sessions = {} -- [session id of the header] = { secret, direction, chains }

local function load_key_log(path)
	sessions = {}
	local file = path ~= "" and io.open(path, "r")
	if not file then
		return
	end
	for line in file:lines() do
		local ids, secret = line:match("^STRAIT_SESSION_SECRET (%x+) (%x+)%s*$")
		if ids and #ids == 16 and #secret == 96 then
			-- What goes to the responder was sent by the initiator, direction 0.
			local initiator, responder = tonumber(sub(ids, 1, 8), 16), tonumber(sub(ids, 9), 16)
			secret = unhex(secret)
			sessions[responder] = { secret = secret, direction = 0, chains = {}, keys = {} }
			sessions[initiator] = { secret = secret, direction = 1, chains = {}, keys = {} }
		end
	end
	file:close()
end

-- Key and IV of a generation, made once, as is each link of the chain to it. The header says the
-- generation, and anybody can write headers: what is beyond the preference, or of a queue that
-- cannot be, is nobody's, or one forged packet would keep us busy for minutes.
local QUEUES = 64

local function generation_keys(session, queue, generation)
	local name = queue .. "/" .. generation
	if session.keys[name] or queue >= QUEUES or generation > strait.prefs.generations then
		return session.keys[name]
	end
	local chain = session.chains[queue]
	if not chain then
		chain = { [0] = expand_label(session.secret, "strait chain",
			char(session.direction, queue), 48) }
		session.chains[queue] = chain
	end
	for i = #chain + 1, generation do
		chain[i] = expand_label(chain[i - 1], "strait ku", "", 48)
	end
	local keys = { aead = gcm_key(expand_label(chain[generation], "strait key", "", 32)),
		iv = expand_label(chain[generation], "strait iv", "", 12) }
	session.keys[name] = keys
	return keys
end

local function nonce_of(iv, high, low)
	local n = words(iv, 1, 3)
	return be32(n[1]) .. be32(bxor(n[2], high) % TWO32) .. be32(bxor(n[3], low) % TWO32)
end

-- ---- fields ------------------------------------------------------------------------------------

local TYPES = { [1] = "DATA", [2] = "MANIFEST", [3] = "CONTROL" }
local CLASSES = { [0] = "urgent", [1] = "normal", [2] = "bulk" }
local STREAMS = { [0] = "objects", [1] = "manifest" }
local STATUSES = { [0] = "PENDING", "COMMITTED", "EXISTS", "FULL", "EVICTED", "NOT_FOUND", "DIGEST",
	"TOO_LARGE", "CANCELED", "DEADLINE", "UNREACHABLE", "REFUSED", "BUSY", "MALFORMED", "INTERNAL",
	"SKIPPED", "RESET" }
local FRAMES = { "OPEN", "OPEN_ACK", "REPORT", "HAVE", "NEED", "CREDIT", "OBJECT", "OBJECT_ACK",
	"WITHDRAW", "CLOSE", "CLOSE_ACK", "CHALLENGE", "RESPONSE", "PING", "PADDING", "RECALL" }

local f = {
	version = ProtoField.uint8("strait.version", "Version", base.DEC, nil, 0xf0),
	type = ProtoField.uint8("strait.type", "Type", base.DEC, TYPES, 0x0f),
	queue = ProtoField.uint8("strait.queue", "Queue"),
	flags = ProtoField.uint8("strait.flags", "Flags", base.HEX),
	tail = ProtoField.bool("strait.flags.tail", "Tail", 8, nil, 0x01),
	end_of_block = ProtoField.bool("strait.flags.end_of_block", "End of block", 8, nil, 0x02),
	report_flag = ProtoField.bool("strait.flags.report", "Report", 8, nil, 0x04),
	esi = ProtoField.uint8("strait.esi", "ESI"),
	session = ProtoField.uint32("strait.session", "Session", base.HEX),
	number = ProtoField.uint64("strait.number", "Packet number"),
	generation = ProtoField.uint64("strait.generation", "Key generation"),
	transfer = ProtoField.uint32("strait.transfer", "Transfer"),
	block = ProtoField.uint32("strait.block", "Source block"),
	ciphertext = ProtoField.bytes("strait.ciphertext", "Ciphertext"),
	tag = ProtoField.bytes("strait.tag", "Tag"),
	opened = ProtoField.bool("strait.opened", "Opened"),
	symbol = ProtoField.bytes("strait.symbol", "Symbol"),
	frame = ProtoField.uint8("strait.frame", "Frame", base.DEC, FRAMES),
	length = ProtoField.uint16("strait.frame.length", "Length"),
	order = ProtoField.uint64("strait.open.order", "Order"),
	stream_bytes = ProtoField.uint64("strait.open.stream_bytes", "Stream bytes"),
	manifest_bytes = ProtoField.uint32("strait.open.manifest_bytes", "Manifest bytes"),
	objects = ProtoField.uint32("strait.open.objects", "Objects"),
	symbol_bytes = ProtoField.uint16("strait.open.symbol_bytes", "Symbol bytes"),
	interval = ProtoField.uint32("strait.interval", "Report interval, us"),
	deadline = ProtoField.uint64("strait.open.deadline", "Deadline, ms of Unix time"),
	class = ProtoField.uint8("strait.class", "Class", base.DEC, CLASSES),
	status = ProtoField.uint8("strait.status", "Status", base.DEC, STATUSES),
	frame_transfer = ProtoField.uint32("strait.frame.transfer", "Transfer"),
	frame_queue = ProtoField.uint8("strait.report.queue", "Queue"),
	newest = ProtoField.uint64("strait.newest", "Newest received"),
	received_us = ProtoField.uint64("strait.report.received_us", "Its receive time, us"),
	delay = ProtoField.uint32("strait.report.delay", "Delay, us"),
	base = ProtoField.uint64("strait.report.base", "Base"),
	range = ProtoField.string("strait.report.range", "Received"),
	stream = ProtoField.uint8("strait.stream", "Stream", base.DEC, STREAMS),
	floor = ProtoField.uint32("strait.have.floor", "Complete below"),
	complete = ProtoField.string("strait.have.complete", "Complete"),
	need_block = ProtoField.uint64("strait.need.block", "Block"),
	missing = ProtoField.uint64("strait.need.missing", "Missing symbols"),
	credit_bytes = ProtoField.uint64("strait.credit.bytes", "Stream bytes"),
	credit_objects = ProtoField.uint64("strait.credit.objects", "Objects"),
	first = ProtoField.uint32("strait.object.first", "First position"),
	next = ProtoField.uint32("strait.object.next", "Known below"),
	object = ProtoField.uint64("strait.object", "Object"),
	token = ProtoField.bytes("strait.token", "Token"),
	recall = ProtoField.uint64("strait.recall", "Ranges from packet number"),
	rest = ProtoField.bytes("strait.frame.body", "Body"),
}
strait.fields = f
local e = {
	short = ProtoExpert.new("strait.short", "Shorter than header and tag", expert.group.MALFORMED,
		expert.severity.ERROR),
	version = ProtoExpert.new("strait.unknown", "Version or type unknown", expert.group.PROTOCOL,
		expert.severity.WARN),
	auth = ProtoExpert.new("strait.auth", "The tag does not hold: forged, corrupted, or other keys",
		expert.group.DECRYPTION, expert.severity.WARN),
	cut = ProtoExpert.new("strait.cut", "The capture has only the beginning of this packet",
		expert.group.UNDECODED, expert.severity.NOTE),
	malformed = ProtoExpert.new("strait.malformed", "Malformed frame", expert.group.MALFORMED,
		expert.severity.ERROR),
}
strait.experts = e

-- ---- frames ------------------------------------------------------------------------------------
-- A cursor over a frame's body. Reading past its end, or what is out of limits, is an error that
-- the caller catches and shows.

local function limit(holds, what, value)
	if not holds then
		error(string.format(what, value), 0)
	end
end

local Cursor = {}
Cursor.__index = Cursor

local function cursor(tvb, at, len)
	return setmetatable({ tvb = tvb, at = at, stop = at + len }, Cursor)
end

function Cursor:take(n)
	limit(self.at + n <= self.stop, "too short")
	local range = self.tvb(self.at, n)
	self.at = self.at + n
	return range
end

function Cursor:add(tree, field, n)
	local range = self:take(n)
	tree:add(field, range)
	return range
end

-- RFC 9000 section 16. Lua's numbers hold 53 bits, more than any count that makes sense.
function Cursor:varint()
	local start = self.at
	local value = self:take(1):uint()
	local len = lshift(1, rshift(value, 6))
	value = value % 64
	for _ = 2, len do
		value = value * 256 + self:take(1):uint()
	end
	return value, self.tvb(start, len)
end

local function u64(value)
	return UInt64(value % TWO32, math.floor(value / TWO32))
end

-- A byte, a stream or a class.
local function add_limited(c, tree, field, most)
	local value = c:add(tree, field, 1):uint()
	limit(value <= most, "value %d", value)
end

local read = {}

read[1] = function(c, tree)
	c:add(tree, f.frame_transfer, 4)
	c:add(tree, f.order, 8)
	c:add(tree, f.stream_bytes, 8)
	c:add(tree, f.manifest_bytes, 4)
	local objects = c:add(tree, f.objects, 4):uint()
	local symbol = c:add(tree, f.symbol_bytes, 2):uint()
	add_limited(c, tree, f.class, 2)
	c:take(1)
	c:add(tree, f.interval, 4)
	c:add(tree, f.deadline, 8)
	limit(objects >= 1 and objects <= 65536, "%d objects", objects)
	limit(symbol >= 512 and symbol <= 8932, "symbols of %d bytes", symbol)
end

read[2] = function(c, tree)
	c:add(tree, f.frame_transfer, 4)
	c:add(tree, f.status, 1)
end
read[10] = read[2]

read[3] = function(c, tree)
	c:add(tree, f.frame_queue, 1)
	c:take(1)
	local newest = c:add(tree, f.newest, 8):uint64()
	c:add(tree, f.received_us, 8)
	c:add(tree, f.delay, 4)
	local base = c:add(tree, f.base, 8):uint64()
	local high = base:tonumber()
	limit(base <= newest, "base above newest")
	for _ = 1, (c:varint()) do
		local start = c.at
		local received = c:varint() + 1
		local missing = c:varint()
		limit(high + 1 >= received + missing, "below packet number 0")
		tree:add(f.range, c.tvb(start, c.at - start),
			string.format("%.0f to %.0f", high - received + 1, high))
		high = high - received - missing
	end
end

read[4] = function(c, tree)
	c:add(tree, f.frame_transfer, 4)
	add_limited(c, tree, f.stream, 1)
	local at = c:add(tree, f.floor, 4):uint()
	for _ = 1, (c:varint()) do
		local start = c.at
		local gap = c:varint()
		local run = c:varint()
		at = at + gap
		limit(gap >= 1 and run >= 1, "empty gap or run")
		limit(at + run <= TWO32, "block %.0f", at + run - 1)
		tree:add(f.complete, c.tvb(start, c.at - start),
			string.format("blocks %.0f to %.0f", at, at + run - 1))
		at = at + run
	end
end

read[5] = function(c, tree)
	c:add(tree, f.frame_transfer, 4)
	add_limited(c, tree, f.stream, 1)
	c:add(tree, f.newest, 8)
	local block = 0
	for i = 1, (c:varint()) do
		local step, range = c:varint()
		limit(step >= 1 or i == 1, "a block twice")
		block = block + step
		limit(block < TWO32, "block %.0f", block)
		tree:add(f.need_block, range, u64(block))
		local missing, where = c:varint()
		tree:add(f.missing, where, u64(missing))
		limit(missing >= 1 and missing <= 128, "%.0f symbols", missing)
	end
end

read[6] = function(c, tree)
	add_limited(c, tree, f.class, 2)
	c:add(tree, f.credit_bytes, 8)
	c:add(tree, f.credit_objects, 8)
end

-- Statuses up to this one are none that the frame may bring.
local function object_list(c, tree, not_final)
	for _ = 1, (c:varint()) do
		local object, range = c:varint()
		tree:add(f.object, range, u64(object))
		limit(object < 65536, "object %.0f", object)
		local status = c:add(tree, f.status, 1):uint()
		limit(status > not_final, "status %d", status)
	end
end

read[7] = function(c, tree)
	c:add(tree, f.frame_transfer, 4)
	c:add(tree, f.first, 4)
	object_list(c, tree, 0)
end

read[8] = function(c, tree)
	c:add(tree, f.frame_transfer, 4)
	c:add(tree, f.next, 4)
end

read[9] = function(c, tree)
	c:add(tree, f.frame_transfer, 4)
	object_list(c, tree, 2)
end

read[11] = function(c, tree)
	c:add(tree, f.frame_transfer, 4)
end

read[12] = function(c, tree)
	c:add(tree, f.token, 8)
end
read[13] = read[12]

read[14] = function(c, tree)
	c:add(tree, f.interval, 4)
end

read[16] = function(c, tree)
	c:add(tree, f.recall, 8)
end

-- Frames of an opened CONTROL packet; their names.
local function dissect_frames(tvb, tree)
	local at, names = 0, {}
	while at < tvb:len() do
		if at + 3 > tvb:len() then
			tree:add_proto_expert_info(e.malformed)
			break
		end
		local kind, len = tvb(at, 1):uint(), tvb(at + 1, 2):uint()
		local name = FRAMES[kind] or string.format("frame %d", kind)
		names[#names + 1] = name
		if at + 3 + len > tvb:len() then
			tree:add_proto_expert_info(e.malformed)
			break
		end
		local item = tree:add(f.frame, tvb(at, 1))
		item:set_len(3 + len)
		item:add(f.length, tvb(at + 1, 2))
		local c = cursor(tvb, at + 3, len)
		if read[kind] then
			local ok, why = pcall(read[kind], c, item)
			if not ok or c.at ~= c.stop then
				item:add_proto_expert_info(e.malformed, "Malformed frame: " .. (why or "too long"))
			end
		elseif len > 0 then
			item:add(f.rest, tvb(at + 3, len))
		end
		at = at + 3 + len
	end
	return table.concat(names, ", ")
end

-- ---- packets -----------------------------------------------------------------------------------

local HEADER, TAG = 24, 16
local opened_before = {} -- [frame number .. offset] = plaintext, "" for failed ones

local function open(tvb, pinfo, session)
	local name = pinfo.number .. "/" .. tvb:offset()
	if opened_before[name] ~= nil then
		return opened_before[name]
	end
	local high, low = tvb(8, 4):uint(), tvb(12, 4):uint()
	-- number >> 23
	local generation = high * 512 + math.floor(low / 8388608)
	local keys = generation_keys(session, tvb(1, 1):uint(), generation)
	local plain = keys and gcm_open(keys.aead, nonce_of(keys.iv, high, low), tvb:raw(0, HEADER),
		tvb:raw(HEADER, tvb:len() - HEADER - TAG), tvb:raw(tvb:len() - TAG, TAG))
	opened_before[name] = plain or false
	return opened_before[name]
end

function strait.dissector(tvb, pinfo, root)
	-- A capture may hold less of a packet than was on the wire (capture start --snaplen).
	local len, whole = tvb:len(), tvb:reported_len()
	pinfo.cols.protocol = "Strait"
	local tree = root:add(strait, tvb())
	if whole >= HEADER + TAG and len < HEADER then
		tree:add_proto_expert_info(e.cut)
		pinfo.cols.info = "cut by the capture"
		return len
	end
	if whole < HEADER + TAG then
		tree:add_proto_expert_info(e.short)
		pinfo.cols.info = "too short"
		return len
	end
	local first = tvb(0, 1)
	local version, kind = rshift(first:uint(), 4), band(first:uint(), 15)
	tree:add(f.version, first)
	tree:add(f.type, first)
	tree:add(f.queue, tvb(1, 1))
	local flags = tree:add(f.flags, tvb(2, 1))
	flags:add(f.tail, tvb(2, 1))
	flags:add(f.end_of_block, tvb(2, 1))
	flags:add(f.report_flag, tvb(2, 1))
	tree:add(f.esi, tvb(3, 1))
	tree:add(f.session, tvb(4, 4))
	tree:add(f.number, tvb(8, 8))
	tree:add(f.generation, tvb(8, 6), tvb(8, 8):uint64():rshift(23)):set_generated()
	tree:add(f.transfer, tvb(16, 4))
	tree:add(f.block, tvb(20, 4))
	local text = math.min(len, whole - TAG) - HEADER
	if text > 0 then
		tree:add(f.ciphertext, tvb(HEADER, text))
	end
	if len == whole then
		tree:add(f.tag, tvb(len - TAG, TAG))
	else
		tree:add_proto_expert_info(e.cut)
	end
	local info = string.format("%s %s", TYPES[kind] or "type " .. kind, tostring(tvb(8, 8):uint64()))
	if kind ~= 3 then
		info = info .. string.format(" transfer %d block %d ESI %d", tvb(16, 4):uint(),
			tvb(20, 4):uint(), tvb(3, 1):uint())
	end
	pinfo.cols.info = info
	if version ~= 1 or not TYPES[kind] then
		tree:add_proto_expert_info(e.version)
		return len
	end
	local session = sessions[tvb(4, 4):uint()]
	if not session or len < whole then
		return len
	end
	local plain = open(tvb, pinfo, session)
	tree:add(f.opened, tvb(HEADER), plain and true or false):set_generated()
	if not plain then
		tree:add_proto_expert_info(e.auth)
		return len
	end
	if #plain == 0 then
		return len
	end
	local inside = ByteArray.new(plain, true):tvb("Opened")
	if kind == 3 then
		pinfo.cols.info = info .. ": " .. dissect_frames(inside, tree)
	else
		tree:add(f.symbol, inside())
	end
	return len
end

function strait.init()
	opened_before = {}
	load_key_log(strait.prefs.key_log)
end

function strait.prefs_changed()
	opened_before = {}
	load_key_log(strait.prefs.key_log)
end

DissectorTable.get("udp.port"):add(4790, strait)
DissectorTable.get("udp.port"):add_for_decode_as(strait)
