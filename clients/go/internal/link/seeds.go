// Package link has connections to the server.
package link

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"claret/go/internal/failure"
)

// Seeds are the addresses at which the database can be reached.
type Seeds struct {
	addresses []string
	tls       *tls.Config
	wait      time.Duration

	mutex   sync.Mutex
	current int
}

// NewSeeds makes seeds. The wait limits how long one address may take to answer.
func NewSeeds(addresses []string, config *tls.Config, wait time.Duration) *Seeds {
	return &Seeds{addresses: addresses, tls: config, wait: wait}
}

// Dial connects to the address that answered last, or else to the next one that answers.
func (s *Seeds) Dial(ctx context.Context) (net.Conn, error) {
	s.mutex.Lock()
	first := s.current
	s.mutex.Unlock()
	var failures []error
	for i := range s.addresses {
		index := (first + i) % len(s.addresses)
		conn, err := s.dialOne(ctx, s.addresses[index])
		if err == nil {
			s.mutex.Lock()
			s.current = index
			s.mutex.Unlock()
			return conn, nil
		}
		s.mutex.Lock()
		if s.current == index {
			// The time may not suffice for the others: then the next attempt begins with them.
			s.current = (index + 1) % len(s.addresses)
		}
		s.mutex.Unlock()
		failures = append(failures, fmt.Errorf("%s: %w", s.addresses[index], err))
	}
	err := errors.Join(failures...)
	return nil, failure.New(failure.ErrConnection, err.Error(), err)
}

func (s *Seeds) dialOne(ctx context.Context, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, s.wait)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	answering, err := s.greet(ctx, conn, address)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return answering, nil
}

// greet makes sure that a server answers: one that is stopped may still accept connections.
func (s *Seeds) greet(ctx context.Context, conn net.Conn, address string) (net.Conn, error) {
	if s.tls != nil {
		config := s.tls.Clone()
		if config.ServerName == "" {
			host, _, err := net.SplitHostPort(address)
			if err != nil {
				return nil, err
			}
			config.ServerName = host
		}
		secured := tls.Client(conn, config)
		if err := secured.HandshakeContext(ctx); err != nil {
			return nil, err
		}
		conn = secured
	}
	if _, err := conn.Write([]byte("*1\r\n$4\r\nPING\r\n")); err != nil {
		return nil, err
	}
	// Any line will do: without a password so far, it is an error. Nothing follows the line.
	_, err := bufio.NewReader(conn).ReadString('\n')
	return conn, err
}
