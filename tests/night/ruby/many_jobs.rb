# Sidekiq enqueues many jobs while its server is killed again and again; then a worker does them.
ENV["REDIS_URL"] = "redis://127.0.0.1:#{ARGV[0]}/0"
require_relative "jobs"
require "sidekiq/api"

Sidekiq.logger.level = Logger::FATAL
# As the next major version of the client does, and without a warning.
Redis.sadd_returns_boolean = false
WAIT_S = 300
jobs = Integer(ARGV[1])
told = 0

enqueue = lambda do |number|
  Count.perform_async(number)
rescue Redis::BaseConnectionError
  # Whether the job is there is not known now, so it is sent again: it may run twice.
  told += 1
  sleep 0.1
  retry
end

jobs.times(&enqueue)
puts "interrupted #{told}"
$stdout.flush
# The one who kills the server ends now.
$stdin.gets
pid = Process.spawn("sidekiq", "-r", File.expand_path("jobs.rb", __dir__), out: File::NULL, err: File::NULL)
begin
  last = Time.now + WAIT_S
  until Sidekiq::Queue.new.size.zero? && redis { |connection| connection.hlen("runs") } == jobs
    abort "jobs are missing: #{redis { |connection| connection.hlen("runs") }}" if Time.now > last
    sleep 0.1
  end
ensure
  Process.kill("TERM", pid)
  Process.wait(pid)
end
puts "done #{redis { |connection| connection.hlen("runs") }}"
