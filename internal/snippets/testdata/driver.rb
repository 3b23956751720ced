loaded = nil
$stdin.each_line(chomp: true) do |line|
  name, body, secrets, *fields = line.split("\t", -1)
  load File.join(__dir__, "#{name}.rb") unless loaded == name
  loaded = name
  env = fields.each_slice(2).to_h { |field, value| ["HTTP_#{field.upcase.tr("-", "_")}", [value].pack("H*")] }
  begin
    puts verify_webhook(env, [body].pack("H*"), secrets.split(".").drop(1).map { |s| [s].pack("H*") })
  rescue StandardError => error
    puts error.inspect
  end
end
