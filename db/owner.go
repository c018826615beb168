package db

// Who runs a session. The machine's locks say it too, but two flows with different lock folders do not see each
// other's, and the file is what both write to.

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"flow/starlark/diag"
	"flow/workflows/record"
)

// owner is the process that runs a session, in the session's row as long as that says running.
type owner struct {
	Host    string `json:"host"`
	PID     int    `json:"pid"`
	Started string `json:"started,omitempty"` // tells a pid that was given away anew
}

func self() *owner {
	host, _ := os.Hostname() // "" is as good a name as any
	return &owner{host, os.Getpid(), startTime(os.Getpid())}
}

// ClaimSession is UpdateSession for a process that goes on with a session: it is refused while another process
// of this host runs it. One of another host cannot be asked, and is taken for gone.
func (d *DB) ClaimSession(ctx context.Context, s *record.Session) error {
	return d.write(ctx, "record session", true, func(tx *sql.Tx) error {
		var said sql.NullString
		err := tx.QueryRow(`SELECT doc ->> '$.owner' FROM t_session WHERE id = ? AND status = 'running'`, s.ID).Scan(&said)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		var was owner
		if said.Valid && json.Unmarshal([]byte(said.String), &was) == nil {
			if me := self(); was != *me && was.Host == me.Host && running(was.PID, was.Started) {
				return &diag.Error{Kind: diag.Machine, Op: "resume", Msg: fmt.Sprintf("session %s is run by pid %d, with another lock folder than this one", s.ID, was.PID),
					Fix: "wait until it ends, or end it with: kill " + fmt.Sprint(was.PID)}
			}
		}
		return updateSession(tx, s)
	})
}
