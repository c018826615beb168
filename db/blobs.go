package db

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// What is kept of a text that is longer: engines can flood their logs, and the reason is at the start
// (configuration) or at the end (death).
const (
	headBytes = 4 << 20
	tailBytes = 4 << 20
	plainMax  = 1 << 10 // shorter texts are kept as they are, so that any tool reads them
)

// keepBlob keeps a text once, whoever says it, and gives its key; nil for an empty text.
func keepBlob(tx *sql.Tx, s string) (any, error) {
	if s == "" {
		return nil, nil
	}
	sum := sha256.Sum256([]byte(s))
	sha := hex.EncodeToString(sum[:])
	var key int64
	if err := tx.QueryRow(`SELECT key FROM t_blob WHERE sha256 = ?`, sha).Scan(&key); !errors.Is(err, sql.ErrNoRows) {
		return key, err
	}
	kept, total := s, len(s)
	if len(s) > headBytes+tailBytes {
		kept = s[:headBytes] + fmt.Sprintf("\n… %d bytes left out …\n", len(s)-headBytes-tailBytes) + s[len(s)-tailBytes:]
	}
	codec, data := "plain", []byte(kept)
	if len(kept) > plainMax {
		packed, err := pack(kept)
		if err != nil {
			return nil, err
		}
		codec, data = "zstd", packed
	}
	res, err := tx.Exec(`INSERT INTO t_blob (sha256, codec, bytes, kept, data) VALUES (?, ?, ?, ?, ?)`, sha, codec, total, min(total, headBytes+tailBytes), data)
	if err != nil {
		return nil, err
	}
	return res.LastInsertId()
}

func pack(s string) ([]byte, error) {
	var b strings.Builder
	w, err := zstd.NewWriter(&b, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedDefault))
	if err != nil {
		return nil, err
	}
	if _, err := io.WriteString(w, s); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return []byte(b.String()), nil
}

func unpack(codec string, data []byte) (string, error) {
	if codec == "plain" {
		return string(data), nil
	}
	if codec != "zstd" {
		return "", fmt.Errorf("got codec %q, want plain or zstd", codec)
	}
	r, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(2*(headBytes+tailBytes)))
	if err != nil {
		return "", err
	}
	defer r.Close()
	out, err := r.DecodeAll(data, nil)
	return string(out), err
}

// Log is the engine's output in an arm from byte 0, with its middle left out when huge; "" when none was
// kept.
func (d *DB) Log(ctx context.Context, armID string) (string, error) {
	return d.blob(ctx, "read log", `SELECT b.codec, b.data FROM t_arm a JOIN t_blob b ON b.key = a.log WHERE a.id = ?`, armID)
}

// Text is the completion of a request, "" when none was kept.
func (d *DB) Text(ctx context.Context, armID string, index int) (string, error) {
	return d.blob(ctx, "read text", `SELECT b.codec, b.data FROM t_arm a JOIN t_request r ON r.arm = a.key JOIN t_blob b ON b.key = r.text
		WHERE a.id = ? AND r.idx = ?`, armID, index)
}

func (d *DB) blob(ctx context.Context, op, query string, args ...any) (string, error) {
	var codec string
	var data []byte
	err := d.reader.QueryRowContext(ctx, query, args...).Scan(&codec, &data)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	if err != nil {
		return "", d.fail(op, err)
	}
	s, err := unpack(codec, data)
	return s, d.fail(op, err)
}
