// Command flags is a service for feature flags. Each instance answers reads from memory, also
// while the store is down, and follows the changes that others make.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"time"

	claret "claret/go"
)

const (
	valueBytesMax = 4096
	nameBytesMax  = 100
	writeTimeout  = 5 * time.Second
	notRead       = "the flags have not been read yet"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8080", "address of this instance")
	store := flag.String("store", "127.0.0.1:6379", "address of Claret")
	flag.Parse()
	if err := serve(*listen, *store); err != nil {
		log.Fatal(err)
	}
}

func serve(listen, store string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	db, err := claret.Connect(claret.Options{Addresses: []string{store}})
	if err != nil {
		return err
	}
	defer db.Close()
	flags := NewFlags(db)
	go flags.Follow(ctx)
	server := &http.Server{Addr: listen, Handler: handler(flags), ReadTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { server.Close() })
	log.Print("flags on http://", listen, "/flags")
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// handler answers GET /flags, GET /flags/name and PUT /flags/name, whose body is a JSON value.
func handler(flags *Flags) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /flags", func(w http.ResponseWriter, r *http.Request) {
		values, version := flags.All()
		if values == nil {
			http.Error(w, notRead, http.StatusServiceUnavailable)
			return
		}
		answer(w, map[string]any{"version": version, "flags": values})
	})
	mux.HandleFunc("GET /flags/{name}", func(w http.ResponseWriter, r *http.Request) {
		switch value, loaded := flags.Get(r.PathValue("name")); {
		case !loaded:
			http.Error(w, notRead, http.StatusServiceUnavailable)
		case value == nil:
			http.Error(w, "there is no such flag", http.StatusNotFound)
		default:
			answer(w, value)
		}
	})
	mux.HandleFunc("PUT /flags/{name}", func(w http.ResponseWriter, r *http.Request) {
		name := r.PathValue("name")
		value, err := io.ReadAll(http.MaxBytesReader(w, r.Body, valueBytesMax))
		if err != nil || !json.Valid(value) || len(name) > nameBytesMax {
			text := fmt.Sprintf("a flag is a JSON value of at most %d bytes under a name of at most %d",
				valueBytesMax, nameBytesMax)
			http.Error(w, text, http.StatusBadRequest)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), writeTimeout)
		defer cancel()
		version, err := flags.Set(ctx, name, value)
		if err != nil {
			// It may have taken effect all the same; to send it again does no harm.
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("X-Flags-Version", strconv.FormatInt(version, 10))
		w.WriteHeader(http.StatusNoContent)
	})
	return mux
}

func answer(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(value); err != nil {
		log.Print(err)
	}
}
