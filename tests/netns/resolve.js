// SPDX-License-Identifier: Apache-2.0

// resolve.js cares|lookup NAME TOKEN: what resolve.c does, with c-ares or with the C library.
"use strict";
const dns = require("dns");
const net = require("net");

function visit(address, token) {
	return new Promise((resolve) => {
		let echo = "";
		const stream = net.connect(7000, address, () => stream.end(token));
		stream.on("data", (data) => { echo += data; });
		stream.on("error", (error) => resolve(error.code));
		stream.on("close", () => resolve(echo));
	});
}

async function addressesOf(way, name) {
	if (way === "lookup")
		return (await dns.promises.lookup(name, { all: true })).map((found) => found.address);
	const found = await Promise.allSettled([dns.promises.resolve4(name),
		dns.promises.resolve6(name)]);
	if (found.every((one) => one.status === "rejected"))
		throw found[0].reason;
	return found.flatMap((one) => one.value || []);
}

async function main([way, name, token]) {
	let addresses;
	try {
		addresses = await addressesOf(way, name);
	} catch (error) {
		console.log("unresolved", error.code);
		process.exitCode = 1;
		return;
	}
	for (const address of addresses)
		console.log(address, await visit(address, token));
}

main(process.argv.slice(2));
