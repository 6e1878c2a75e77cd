// SPDX-License-Identifier: Apache-2.0

// resolve NAME TOKEN: what resolve.c does, with Go's own resolver.
package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"time"
)

func visit(address, token string) string {
	stream, err := net.DialTimeout("tcp", net.JoinHostPort(address, "7000"), 5*time.Second)
	if err != nil {
		return err.Error()
	}
	defer stream.Close()
	if _, err = io.WriteString(stream, token); err != nil {
		return err.Error()
	}
	if err = stream.(*net.TCPConn).CloseWrite(); err != nil {
		return err.Error()
	}
	echo, err := io.ReadAll(stream)
	if err != nil {
		return err.Error()
	}
	return string(echo)
}

func main() {
	if len(os.Args) != 3 {
		os.Exit(2)
	}
	resolver := net.Resolver{PreferGo: true}
	addresses, err := resolver.LookupHost(context.Background(), os.Args[1])
	if err != nil {
		fmt.Println("unresolved", err)
		os.Exit(1)
	}
	for _, address := range addresses {
		fmt.Println(address, visit(address, os.Args[2]))
	}
}
