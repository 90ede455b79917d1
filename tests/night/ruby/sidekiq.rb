# Sidekiq: jobs, queues, retries, scheduled jobs, workers that are told to end and that are killed.
ENV["REDIS_URL"] = "redis://127.0.0.1:#{ARGV[0]}/0"
require_relative "jobs"
require "sidekiq/api"

Sidekiq.logger.level = Logger::FATAL
# As the next major version of the client does, and without a warning.
Redis.sadd_returns_boolean = false
$stdout.sync = true
WAIT_S = 60
JOBS = 500

def say(name, *values)
  puts "#{name}: #{values.map(&:inspect).join(" ")}"
end

def wait_for(what)
  last = Process.clock_gettime(Process::CLOCK_MONOTONIC) + WAIT_S
  until yield
    abort "this did not happen in time: #{what}" if Process.clock_gettime(Process::CLOCK_MONOTONIC) > last
    sleep 0.05
  end
end

def worker(*words)
  jobs = File.expand_path("jobs.rb", __dir__)
  Process.spawn("sidekiq", "-r", jobs, *words, out: File::NULL, err: File::NULL)
end

# Starts a worker, and ends it in the regular way after the block.
def with_worker(*words)
  pid = worker(*words)
  yield pid
ensure
  if pid
    Process.kill("TERM", pid)
    Process.wait(pid)
  end
end

def queue(name = "default")
  Sidekiq::Queue.new(name)
end

def all_once
  Count.perform_async(0)
  Sidekiq::Client.push_bulk("class" => Count, "args" => (1...JOBS).map { |number| [number] })
  say "queued", queue.size, queue.first.klass, queue.latency >= 0
  with_worker("-c", "5") { wait_for("all jobs") { Sidekiq::Stats.new.processed == JOBS } }
  runs = redis { |connection| connection.hvals("runs") }
  stats = Sidekiq::Stats.new
  say "done", runs.size, runs.uniq, stats.processed, stats.failed, stats.enqueued
  say "history", Sidekiq::Stats::History.new(1).processed.values
end

def queues
  %w[one two three].each { |name| Note.perform_async(name) }
  queue.find { |job| job.args == ["two"] }.delete
  say "left", queue.map { |job| job.args[0] }
  queue.clear
  Note.set(queue: "low").perform_async("low")
  Note.set(queue: "high").perform_async("high")
  say "queues", Sidekiq::Queue.all.map(&:name).sort
  with_worker("-c", "1", "-q", "high", "-q", "low") do
    wait_for("two notes") { redis { |connection| connection.llen("notes") } == 2 }
  end
  say "strict order", redis { |connection| connection.lrange("notes", 0, -1) }
  redis { |connection| connection.del("notes") }
end

def later
  Note.perform_in(2, "second")
  Note.perform_at(Time.now + 1, "first")
  Note.perform_in(3600, "never")
  scheduled = Sidekiq::ScheduledSet.new
  say "scheduled", scheduled.size, scheduled.map { |job| job.args[0] }
  say "cancelled", scheduled.find { |job| job.args == ["never"] }.delete, scheduled.size
  with_worker("-c", "2") do
    wait_for("two notes") { redis { |connection| connection.llen("notes") } == 2 }
  end
  say "in time", redis { |connection| connection.lrange("notes", 0, -1) }.sort, scheduled.size
end

def retries
  Flaky.perform_async("a")
  Hopeless.perform_async
  failed = Sidekiq::RetrySet.new
  with_worker("-c", "2") do
    # The worker finds the first one by itself; its further tries are asked for.
    wait_for("a second try") { redis { |connection| connection.get("tries:a").to_i } == 2 }
    wait_for("another failure") { failed.size == 1 }
    say "to be tried again", failed.map { |job| [job.klass, job["retry_count"], job["error_message"]] }
    failed.each(&:retry)
    wait_for("success") { redis { |connection| connection.llen("recovered") } == 1 }
    wait_for("one has failed") { Sidekiq::DeadSet.new.size == 1 }
  end
  say "recovered", redis { |connection| connection.lrange("recovered", 0, -1) }, failed.size
  say "given up", redis { |connection| connection.lrange("given up", 0, -1) }
  say "dead", Sidekiq::DeadSet.new.map(&:klass), Sidekiq::Stats.new.failed
end

# A worker that is told to end gives back what it has begun.
def ended
  4.times { |number| Long.perform_async("e#{number}") }
  with_worker("-c", "2", "-t", "1") do |pid|
    wait_for("two have begun") { redis { |connection| connection.llen("begun") } == 2 }
    wait_for("a heartbeat") { Sidekiq::ProcessSet.new.any? { |process| process["pid"] == pid } }
    wait_for("two are seen at work") { Sidekiq::Workers.new.size == 2 }
    say "at work", Sidekiq::Workers.new.map { |_, _, work| work["payload"]["class"] }
  end
  say "given back", queue.size, Sidekiq::ProcessSet.new.size
  redis { |connection| connection.set("end", "1") }
  with_worker("-c", "2") { wait_for("all have ended") { redis { |c| c.llen("ended") } == 4 } }
  say "ended", redis { |connection| connection.lrange("ended", 0, -1) }.sort
  redis { |connection| connection.del("end", "begun", "ended") }
end

# A worker that is killed loses what it was doing, as Sidekiq says; the rest is done once.
def killed
  10.times { |number| Long.perform_async("k#{number}") }
  pid = worker("-c", "2")
  wait_for("two have begun") { redis { |connection| connection.llen("begun") } == 2 }
  Process.kill("KILL", pid)
  Process.wait(pid)
  say "waiting", queue.size
  redis { |connection| connection.set("end", "1") }
  with_worker("-c", "2") { wait_for("the rest") { redis { |c| c.llen("ended") } == 8 } }
  lost = redis { |connection| connection.lrange("begun", 0, 1) }.sort
  say "done", redis { |connection| connection.lrange("ended", 0, -1) }.sort, lost, queue.size
end

all_once
queues
later
retries
ended
killed
